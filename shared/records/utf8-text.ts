import { isUtf8 } from 'node:buffer';

/** Bytes as the text that they are; undefined for what is no UTF-8, which would be read as something that nobody wrote. */
export function utf8Text(bytes: Uint8Array): string | undefined {
  return isUtf8(bytes) ? Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8') : undefined;
}
