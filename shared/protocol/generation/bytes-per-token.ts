/** Bytes of UTF-8 that a token stands for where no tokenizer can tell. */
export const BYTES_PER_TOKEN = 3;
