import { asRecord, type UnknownRecord } from '../records/index.ts';

/** Special tokens by their template names, as text. Absent ones are undefined. */
export interface SpecialTokens {
  readonly bosToken?: string | undefined;
  readonly eosToken?: string | undefined;
  readonly unkToken?: string | undefined;
  readonly padToken?: string | undefined;
}

/** Text of a token that tokenizer_config.json writes as a string or as an object with `content`. */
export function tokenText(value: unknown): string | undefined {
  if (typeof value === 'string') return value;
  const content = asRecord(value)?.content;
  return typeof content === 'string' ? content : undefined;
}

export function readSpecialTokens(tokenizerConfig: UnknownRecord): SpecialTokens {
  return {
    bosToken: tokenText(tokenizerConfig.bos_token),
    eosToken: tokenText(tokenizerConfig.eos_token),
    unkToken: tokenText(tokenizerConfig.unk_token),
    padToken: tokenText(tokenizerConfig.pad_token),
  };
}
