import { workerError } from '../../../errors/index.ts';
import type { Transport } from '../types.ts';
import type { DynamoCodec } from './codec.ts';
import type { HostAddress } from './request-connection.ts';

/** Address of an endpoint of a worker of Dynamo. */
export type DynamoTarget = { readonly codec: DynamoCodec } & (
  | ({ readonly kind: 'tcp'; readonly path: string } & HostAddress)
  | { readonly kind: 'nats'; readonly subject: string }
);

const TCP = /^(?:\[(?<v6>[^\]]+)\]|(?<host>[^:/]+)):(?<port>\d{1,5})\/(?<path>.+)$/s;
const SUBJECT = /^[^\s*>]{1,512}$/;

/** Whether the address is one of a worker that speaks Dynamo's request plane. */
export function isOfDynamo(transport: Transport): boolean {
  return transport.dynamo_tcp !== undefined || transport.dynamo_nats_tcp !== undefined;
}

const targets = new WeakMap<Transport, DynamoTarget>(); // every call asks, about few records

/**
 * Reads `{ dynamo_tcp: 'host:port/path' }` or `{ dynamo_nats_tcp: 'subject' }`, each perhaps with `dynamo_codec`.
 * Throws `CannotConnect` for anything else.
 */
export function dynamoTargetOf(transport: Transport): DynamoTarget {
  const known = targets.get(transport);
  if (known !== undefined) return known;
  const target = read(transport);
  if (target === undefined) {
    throw workerError('CannotConnect', `not an address of Dynamo's: ${JSON.stringify(transport).slice(0, 300)}`);
  }
  targets.set(transport, target);
  return target;
}

function read({
  dynamo_tcp: tcp,
  dynamo_nats_tcp: subject,
  dynamo_codec = 'json',
}: Transport): DynamoTarget | undefined {
  if (dynamo_codec !== 'json' && dynamo_codec !== 'msgpack') return undefined;
  if (subject !== undefined) {
    return SUBJECT.test(subject) ? { kind: 'nats', codec: dynamo_codec, subject } : undefined;
  }
  const parts = TCP.exec(tcp ?? '')?.groups;
  const port = Number(parts?.port);
  const host = parts?.v6 ?? parts?.host;
  if (parts?.path === undefined || host === undefined || port === 0 || port > 65_535) return undefined;
  return { kind: 'tcp', codec: dynamo_codec, host, port, path: parts.path };
}
