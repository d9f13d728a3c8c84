import { hideUrlPassword } from '../../config/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { STATUS, statusName } from '../../grpc/index.ts';
import { DiscoveryError } from '../options.ts';

/** Numbers of the statuses that etcd uses beside those of `STATUS`. */
const FAILED_PRECONDITION = 9;
const OUT_OF_RANGE = 11;

/** Failure of one call to etcd, with its gRPC status. */
export class EtcdFailure extends Error {
  override readonly name = 'EtcdFailure';
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }

  /** Whether another member may answer: this one is away, slow, without a leader, or of another cluster. */
  get isOfMember(): boolean {
    return this.status === STATUS.UNAVAILABLE || this.status === STATUS.DEADLINE_EXCEEDED;
  }

  /** Whether the token of this client has ended, or was never sent. */
  get needsToken(): boolean {
    return this.status === STATUS.UNAUTHENTICATED || /user name is empty|auth revision/.test(this.message);
  }

  get isAuthOff(): boolean {
    return this.status === FAILED_PRECONDITION && /authentication is not enabled/.test(this.message);
  }

  get isLeaseGone(): boolean {
    return this.status === STATUS.NOT_FOUND && /lease not found/.test(this.message);
  }

  get isLeaseHeld(): boolean {
    return this.status === FAILED_PRECONDITION && /lease already exists/.test(this.message);
  }

  /** Whether the revision that was asked for is no longer stored. */
  get isCompacted(): boolean {
    return this.status === OUT_OF_RANGE && /compacted/.test(this.message);
  }

  /** Whether the answer is larger than this client reads. */
  get isTooLarge(): boolean {
    return this.status === STATUS.RESOURCE_EXHAUSTED && /larger than max/i.test(this.message);
  }
}

/** Returns the failure of a call for what the gRPC library threw. */
export function toFailure(thrown: unknown): EtcdFailure | DiscoveryError {
  if (thrown instanceof EtcdFailure || thrown instanceof DiscoveryError) return thrown;
  const { code, details } = thrown as { readonly code?: unknown; readonly details?: unknown };
  if (typeof code !== 'number') return new EtcdFailure(STATUS.UNAVAILABLE, reasonOf(thrown));
  return new EtcdFailure(code, typeof details === 'string' && details !== '' ? details : statusName(code));
}

const CERTIFICATES = /certificate|self.signed|wrong version number|tls|ssl|EPROTO|altname/i;

/** Explains a failed call in one line that names the endpoints and says what to do. */
export function toEtcdError(verb: string, endpoints: readonly string[], thrown: unknown): DiscoveryError {
  if (thrown instanceof DiscoveryError) return thrown;
  const failure = toFailure(thrown);
  const where = `etcd at ${endpoints.map(hideUrlPassword).join(', ')}`;
  const reason = failure.message
    .replaceAll(/\s+/g, ' ')
    .replace(/^etcdserver: /, '')
    .replace(/\.$/, '');
  const refused = (hint: string): DiscoveryError =>
    new DiscoveryError('misconfigured', `${where} refuses to ${verb} discovery: ${reason}. ${hint}`, thrown);
  if (failure instanceof DiscoveryError) return failure;
  if (/permission denied/.test(reason)) {
    return refused('Give the user of ETCD_AUTH_USERNAME the right to read and write stator/ and to read v1/');
  }
  if (failure.status === STATUS.UNAUTHENTICATED || /user name is empty|authentication failed|auth token/.test(reason)) {
    return refused('Check ETCD_AUTH_USERNAME and ETCD_AUTH_PASSWORD');
  }
  if (/request is too large/.test(reason)) {
    const hint = 'Raise --max-request-bytes of etcd, or publish a smaller model card';
    return new DiscoveryError('record_too_large', `${where} cannot ${verb} discovery: ${reason}. ${hint}`, thrown);
  }
  const isTls = CERTIFICATES.test(reason) && endpoints.some((endpoint) => endpoint.startsWith('https:'));
  const hint = isTls ? 'Check ETCD_AUTH_CA, ETCD_AUTH_CLIENT_CERT and ETCD_AUTH_CLIENT_KEY' : 'Check ETCD_ENDPOINTS';
  return new DiscoveryError('unavailable', `cannot ${verb} discovery in ${where}: ${reason}. ${hint}`, thrown);
}
