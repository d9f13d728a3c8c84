/** Bytes of a text up to which `zstdFrame` can pack it: its length is one byte. */
const TEXT_BYTES_MAX = 255;

/** Packs a short text as a frame of Zstandard (RFC 8878) with one raw block, as not every Node can pack one itself. */
export function zstdFrame(text: string): Buffer {
  const content = Buffer.from(text);
  if (content.length > TEXT_BYTES_MAX) throw new RangeError(`at most ${TEXT_BYTES_MAX} bytes`);
  const header = Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x20, content.length]);
  const block = Buffer.alloc(3);
  block.writeUIntLE((content.length << 3) | 1, 0, 3); // the last block, raw
  return Buffer.concat([header, block, content]);
}
