import type { Random } from '../../clock/index.ts';

/** Printable, within Latin-1, which is what a header can carry; longer ones are no ids, and every log line would repeat them. */
const REQUEST_ID = /^[\x21-\x7e\xa1-\xff](?:[\x20-\x7e\xa0-\xff]{0,510}[\x21-\x7e\xa1-\xff])?$/;

/** The client's own id of a request, where it is one: at most 512 printable characters. */
export function clientRequestId(header: string | undefined): string | undefined {
  return header !== undefined && REQUEST_ID.test(header) ? header : undefined;
}

/** What `x-request-id` of a response says: the client's own id, or a new one. @param header the request's `x-request-id` */
export function requestIdOf(header: string | undefined, random: Pick<Random, 'uuid'>): string {
  return clientRequestId(header) ?? random.uuid();
}
