/**
 * The table of stored responses. Bodies are gzipped JSON; what does not fit into one item goes on in further items of the same
 * partition, so that no item comes near DynamoDB's 400 KB and nothing but this table is needed.
 *
 *   pk          sk                  attributes
 *   {id}        head                owner, version, chunks, expiresAtMs, ttl, body (first piece)
 *   {id}        {version}#{0001}    ttl, body (a further piece)
 *
 * The head is written last and names the version of its pieces: a reader sees a whole response or none, and a replaced
 * response leaves pieces that nobody reads until their time is over. `ttl` (Unix seconds) only clears garbage; what has expired
 * is told by `expiresAtMs`, by the reader's own clock.
 */
export const RESPONSES_TABLE_SCHEMA = { partitionKey: 'pk', sortKey: 'sk', ttlAttribute: 'ttl' } as const;

export const HEAD_SORT_KEY = 'head';

/** Largest piece of a body in one item: leaves room for the other attributes below 400 KB. */
export const PIECE_BYTES_MAX = 350 * 1024;

/** Sort key of the piece number `index`, from 1. */
export function pieceSortKey(version: string, index: number): string {
  return `${version}#${String(index).padStart(4, '0')}`;
}

/** Cuts a body into pieces; at least one. */
export function toPieces(body: Uint8Array): readonly Uint8Array[] {
  const pieces: Uint8Array[] = [];
  for (let from = 0; from < body.length || from === 0; from += PIECE_BYTES_MAX) {
    pieces.push(body.subarray(from, from + PIECE_BYTES_MAX));
  }
  return pieces;
}
