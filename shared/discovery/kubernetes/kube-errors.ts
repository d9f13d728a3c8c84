import { reasonOf } from '../../errors/index.ts';
import { asRecord } from '../../records/index.ts';
import { DiscoveryError } from '../options.ts';

/** Status of a failure to which no API server answered. */
export const NO_ANSWER = 0;
const UNAUTHORIZED = 401;
const FORBIDDEN = 403;
const NOT_FOUND = 404;
const CONFLICT = 409;
const GONE = 410;
const TOO_LARGE = 413;
const TOO_MANY = 429;
const TIMEOUT = 504;

/** Failure of one call to the API server, with its HTTP status. */
export class KubeFailure extends Error {
  override readonly name = 'KubeFailure';
  /** HTTP status; `NO_ANSWER` if there was none. */
  readonly status: number;

  constructor(status: number, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.status = status;
  }

  /** Whether the same call may succeed soon: the server is away, overloaded or starting. */
  get mayPass(): boolean {
    return this.status === NO_ANSWER || this.status === TOO_MANY || (this.status >= 500 && !this.isTooLarge);
  }

  /** Whether the server no longer has the changes that came after a version, or never had that version. */
  get isVersionGone(): boolean {
    return this.status === GONE || (this.status === TIMEOUT && /too large resource version/i.test(this.message));
  }

  get isAbsent(): boolean {
    return this.status === NOT_FOUND;
  }

  get isConflict(): boolean {
    return this.status === CONFLICT;
  }

  /** Whether the credentials are missing, or have ended. */
  get needsCredentials(): boolean {
    return this.status === UNAUTHORIZED;
  }

  get isForbidden(): boolean {
    return this.status === FORBIDDEN;
  }

  /** Whether the object is larger than the server or its store takes. */
  get isTooLarge(): boolean {
    return this.status === TOO_LARGE || /request is too large|too large for|exceeds the max/i.test(this.message);
  }
}

/** Returns the failure that an answer other than 2xx, or an `ERROR` event of a watch, reports. */
export function failureOf(status: number, body: unknown): KubeFailure {
  const { message, code } = asRecord(body) ?? {};
  const told = typeof message === 'string' && message !== '' ? message : `HTTP status ${status}`;
  return new KubeFailure(typeof code === 'number' ? code : status, told);
}

/** Returns the failure of a call for what the network or the runtime threw. */
export function toKubeFailure(thrown: unknown): KubeFailure | DiscoveryError {
  if (thrown instanceof KubeFailure || thrown instanceof DiscoveryError) return thrown;
  return new KubeFailure(NO_ANSWER, reasonOf(thrown), thrown);
}

const CERTIFICATES = /certificate|self.signed|wrong version number|ssl|EPROTO|altname/i;

/** Explains a failed call in one line that names the server and says what to do. */
export function toKubeError(verb: string, server: string, thrown: unknown): DiscoveryError {
  const failure = toKubeFailure(thrown);
  if (failure instanceof DiscoveryError) return failure;
  const reason = failure.message.replaceAll(/\s+/g, ' ').replace(/\.$/, '');
  const where = `the Kubernetes API at ${server}`;
  const refused = (hint: string): DiscoveryError =>
    new DiscoveryError('misconfigured', `${where} refuses to ${verb} discovery: ${reason}. ${hint}`, thrown);
  if (failure.needsCredentials) return refused('Check the token or the certificate of this process');
  if (failure.isForbidden) return refused('Give its service account the rights that docs/kubernetes.md lists');
  if (failure.isAbsent) {
    return refused(
      'Install the definition of DynamoWorkerMetadata, which docs/kubernetes.md has, and check the namespace',
    );
  }
  if (failure.isTooLarge) {
    const hint = 'The objects of a cluster take about 1.5 MiB: publish a smaller model card';
    return new DiscoveryError('record_too_large', `${where} cannot ${verb} discovery: ${reason}. ${hint}`, thrown);
  }
  const hint = CERTIFICATES.test(reason)
    ? 'Check the certificate authority in the kubeconfig or the service account'
    : 'Check the network, and KUBECONFIG or KUBERNETES_SERVICE_HOST';
  return new DiscoveryError('unavailable', `cannot ${verb} discovery in ${where}: ${reason}. ${hint}`, thrown);
}
