import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { reasonOf, ServeError } from '../../../errors/index.ts';

const DECODED_CHUNK_BYTES = 64 * 1024;

const DECODERS = {
  gzip: () => createGunzip({ chunkSize: DECODED_CHUNK_BYTES }),
  deflate: () => createInflate({ chunkSize: DECODED_CHUNK_BYTES }),
  br: () => createBrotliDecompress({ chunkSize: DECODED_CHUNK_BYTES }),
} as const;

/** A way in which clients may compress bodies. */
export type ContentEncoding = keyof typeof DECODERS;

/**
 * How a body is compressed; undefined = not at all.
 * @throws ServeError `unsupported_media_type` for any other encoding, and for several.
 */
export function contentEncodingOf(header: string | undefined): ContentEncoding | undefined {
  const name = header?.trim().toLowerCase() ?? '';
  if (name === '' || name === 'identity') return undefined;
  if (name === 'x-gzip') return 'gzip';
  if (Object.hasOwn(DECODERS, name)) return name as ContentEncoding;
  const allowed = Object.keys(DECODERS).join(', ');
  const message = `Content-Encoding ${name.slice(0, 100)} is not supported: send ${allowed} or identity`;
  throw new ServeError('unsupported_media_type', message, { param: 'content-encoding' });
}

/**
 * Unpacks `bytes` chunk by chunk, off the event loop. `take` gets each chunk and ends the work by throwing: that is how a
 * body that unpacks to more than is allowed stops at the limit.
 * Rejects with what `take` threw, or with a ServeError `invalid_value` for bytes that are not of that encoding.
 */
export function decodeContent(
  encoding: ContentEncoding,
  bytes: Uint8Array,
  take: (chunk: Uint8Array) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const decoder = DECODERS[encoding]();
    decoder.on('data', (chunk: Buffer) => {
      try {
        take(chunk);
      } catch (thrown) {
        reject(thrown);
        decoder.destroy();
      }
    });
    decoder.once('end', resolve);
    decoder.once('error', (cause) => {
      const message = `Failed to read request body: it is not valid ${encoding}: ${reasonOf(cause)}`;
      reject(new ServeError('invalid_value', message, { param: 'content-encoding', cause }));
    });
    decoder.end(bytes);
  });
}
