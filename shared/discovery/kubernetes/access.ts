import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../clock/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { DiscoveryError } from '../options.ts';

/** Proof of identity for one call. */
export interface KubeCredentials {
  readonly token?: string | undefined;
  /** User and password for basic authentication, joined by a colon. */
  readonly basic?: string | undefined;
  /** Client certificate and its key, PEM. */
  readonly cert?: Buffer | string | undefined;
  readonly key?: Buffer | string | undefined;
}

/** Address of an API server, and the way to prove who asks. */
export interface KubeAccess {
  readonly server: URL;
  /** Authorities that sign the server's certificate, PEM. @default those that Node trusts */
  readonly ca?: Buffer | string | undefined;
  /** Name in the server's certificate, if it is not the host of the address. */
  readonly serverName?: string | undefined;
  /** Whether the server's certificate is not checked. @default false */
  readonly isUnchecked?: boolean;
  /** Namespace for processes that do not name one. @default `default` */
  readonly namespace?: string | undefined;
  /**
   * Returns the current credentials.
   * @param refused whether the server refused the last ones: then they are read again, whatever their age
   * @throws DiscoveryError `misconfigured` or `unavailable`
   */
  credentials(refused: boolean, signal: AbortSignal): Promise<KubeCredentials>;
}

/** Age from which a token is read again: the kubelet replaces the file long before the token ends. */
const TOKEN_AGE_MS_MAX = 60_000;

export interface InClusterOptions {
  readonly host: string;
  readonly port: string;
  /** Folder of the service account. */
  readonly folder: string;
  readonly clock: Clock;
}

/** Returns the access of a process in a pod. */
export async function inClusterAccess({ host, port, folder, clock }: InClusterOptions): Promise<KubeAccess> {
  const address = `https://${host.includes(':') ? `[${host}]` : host}:${port}`;
  if (!URL.canParse(address)) {
    const names = `KUBERNETES_SERVICE_HOST ${host} and KUBERNETES_SERVICE_PORT ${port}`;
    throw new DiscoveryError('misconfigured', `${names} are not the address of a server`);
  }
  const ca = await readNamed(join(folder, 'ca.crt'), 'the certificate authority of the cluster');
  const namespace = await readFile(join(folder, 'namespace'), 'utf8').catch(() => ''); // it is only a default
  const token = new TokenFile(join(folder, 'token'), clock);
  await token.read(false); // so that a pod without a service account fails at its start
  return {
    server: new URL(address),
    ca,
    namespace: namespace.trim() || undefined,
    credentials: async (refused) => ({ token: await token.read(refused) }),
  };
}

/** A file with a token, which is replaced while the process runs. */
export class TokenFile {
  readonly #path: string;
  readonly #clock: Clock;
  #known: { readonly token: string; readonly readMs: number } | undefined;

  constructor(path: string, clock: Clock) {
    this.#path = path;
    this.#clock = clock;
  }

  /** @param isForced whether to read the file however young the known token is */
  async read(isForced: boolean): Promise<string> {
    const nowMs = this.#clock.nowMs();
    if (!isForced && this.#known !== undefined && nowMs - this.#known.readMs < TOKEN_AGE_MS_MAX)
      return this.#known.token;
    const token = (await readNamed(this.#path, 'the token for the Kubernetes API')).toString().trim();
    this.#known = { token, readMs: nowMs };
    return token;
  }
}

/** @throws DiscoveryError that names what the file is for */
export async function readNamed(path: string, what: string): Promise<Buffer> {
  try {
    return await readFile(path);
  } catch (thrown) {
    throw new DiscoveryError('misconfigured', `cannot read ${what}, ${path}: ${reasonOf(thrown)}`, thrown);
  }
}
