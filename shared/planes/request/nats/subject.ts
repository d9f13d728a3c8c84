import { workerError } from '../../../errors/index.ts';
import type { CallTarget } from '../frames/byte-channel.ts';
import type { Transport } from '../types.ts';

/** A worker's endpoint as its discovery record names it; connections belong to one endpoint. */
export interface NatsTarget extends CallTarget {
  readonly subject: string;
}

const SUBJECT = /^(?<ns>[^._]+)_(?<component>[^.]+)\.(?<endpoint>[^.]+)-(?<instance>[0-9a-f]+)$/;

/**
 * Subject of an endpoint path. Characters with a meaning in it are
 * percent-encoded, so that the path can be read back.
 *
 * @example subjectOfEndpoint('2a/dynamo/backend/generate') // 'dynamo_backend.generate-2a'
 */
export function subjectOfEndpoint(path: string): string {
  const [instance, ns, component, endpoint, ...rest] = path.split('/');
  if (!instance || !ns || !component || !endpoint || rest.length > 0 || !/^[0-9a-f]+$/.test(instance)) {
    throw new Error(`endpoint ${JSON.stringify(path)}: expected {instance}/{namespace}/{component}/{endpoint}`);
  }
  return `${encode(ns).replaceAll('_', '%5F')}_${encode(component)}.${encode(endpoint)}-${instance}`;
}

/** Reads `{ nats_tcp: subject }`. Throws `CannotConnect` for anything else. */
export function readNatsTarget(transport: Transport): NatsTarget {
  const subject = transport.nats_tcp ?? JSON.stringify(transport);
  const parts = SUBJECT.exec(subject)?.groups;
  if (parts?.instance === undefined) throw workerError('CannotConnect', `not a NATS transport: ${subject}`);
  const { ns = '', component = '', endpoint = '', instance } = parts;
  const path = [instance, ...[ns, component, endpoint].map(decodeURIComponent)].join('/');
  return { subject, instanceId: instance, endpoint: path, poolKey: subject };
}

function encode(segment: string): string {
  return encodeURIComponent(segment).replace(
    /[.!~*'()]/g, // what encodeURIComponent leaves alone and a subject may not hold, or should not
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}
