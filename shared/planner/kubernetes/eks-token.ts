import type { SignatureV4 } from '@smithy/signature-v4';
import type { Clock } from '../../clock/index.ts';

/** Prefix of a token that the authenticator of EKS reads. */
const PREFIX = 'k8s-aws-v1.';
/** Header that binds a token to one cluster. */
const CLUSTER_HEADER = 'x-k8s-aws-id';
/** Seconds for which the signature holds. The authenticator takes a token for 15 minutes, whatever this says. */
const SIGNED_S = 60;
/** Age from which a token is made anew, in milliseconds: before the 15 minutes of the authenticator end. */
const TOKEN_AGE_MS_MAX = 10 * 60_000;

type SignerOptions = ConstructorParameters<typeof SignatureV4>[0];
type Credentials = Exclude<SignerOptions['credentials'], (...args: never) => unknown>;

export interface EksTokenOptions {
  /** Name of the cluster. */
  readonly cluster: string;
  readonly region: string;
  /** Returns the credentials of this process; with `forceRefresh`, from their source. */
  credentials(options?: { readonly forceRefresh?: boolean }): Promise<Credentials>;
  readonly sha256: SignerOptions['sha256'];
  readonly signer: typeof SignatureV4;
  readonly clock: Clock;
}

/**
 * Tokens for the API server of an EKS cluster. A token is a presigned request to STS, which the authenticator of the
 * cluster sends to learn who asks. Making one calls nothing but the source of the credentials.
 */
export class EksTokens {
  readonly #options: EksTokenOptions;
  #known: { readonly token: string; readonly madeMs: number } | undefined;

  constructor(options: EksTokenOptions) {
    this.#options = options;
  }

  /** @param isForced whether to make a new token however young the known one is, because the server refused it */
  async token(isForced: boolean): Promise<string> {
    const { clock } = this.#options;
    const nowMs = clock.wallMs();
    if (!isForced && this.#known !== undefined && nowMs - this.#known.madeMs < TOKEN_AGE_MS_MAX)
      return this.#known.token;
    const token = await this.#make(isForced, nowMs);
    this.#known = { token, madeMs: nowMs };
    return token;
  }

  async #make(isForced: boolean, nowMs: number): Promise<string> {
    const { cluster, region, credentials, sha256, signer: Signer } = this.#options;
    const provider = () => credentials({ forceRefresh: isForced });
    const signer = new Signer({ service: 'sts', region, credentials: provider, sha256 });
    const hostname = `sts.${region}.${suffixOf(region)}`;
    const signed = await signer.presign(
      {
        method: 'GET',
        protocol: 'https:',
        hostname,
        path: '/',
        query: { Action: 'GetCallerIdentity', Version: '2011-06-15' },
        headers: { host: hostname, [CLUSTER_HEADER]: cluster },
      },
      { expiresIn: SIGNED_S, signingDate: new Date(nowMs) },
    );
    const url = new URL(`https://${hostname}/`);
    for (const [key, value] of Object.entries(signed.query ?? {})) url.searchParams.set(key, String(value));
    return PREFIX + Buffer.from(url.href).toString('base64url');
  }
}

/** Returns the domain of a region's services. */
export function suffixOf(region: string): string {
  return region.startsWith('cn-') ? 'amazonaws.com.cn' : 'amazonaws.com';
}
