import { isUtf8 } from 'node:buffer';

/**
 * Returns the text of UTF-8 bytes, or undefined if they are not UTF-8: decoding those would give a text that no one
 * wrote.
 */
export function utf8Text(bytes: Uint8Array): string | undefined {
  return isUtf8(bytes) ? Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8') : undefined;
}
