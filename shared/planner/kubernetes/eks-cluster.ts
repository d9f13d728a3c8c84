import type { SignatureV4 } from '@smithy/signature-v4';
import type { Clock } from '../../clock/index.ts';
import { KubeFailure } from '../../discovery/index.ts';
import { reasonOf } from '../../errors/index.ts';
import { asRecord } from '../../records/index.ts';
import { isSafe } from './cluster-fleet.ts';
import { suffixOf } from './eks-token.ts';

type SignerOptions = ConstructorParameters<typeof SignatureV4>[0];

/** Address of the API server of a cluster, and the authority of its certificate. */
export interface EksAddress {
  readonly endpoint: string;
  /** PEM in base64. */
  readonly certificateAuthority: string;
}

export interface DescribeOptions {
  /** Name of the cluster. */
  readonly cluster: string;
  readonly region: string;
  readonly credentials: SignerOptions['credentials'];
  readonly sha256: SignerOptions['sha256'];
  readonly signer: typeof SignatureV4;
  /** `AWS_ENDPOINT_URL_EKS` or `AWS_ENDPOINT_URL` names another service than that of the region. */
  readonly env: NodeJS.ProcessEnv;
  readonly clock: Clock;
}

/** Time for the answer of EKS, in milliseconds. */
const ASK_MS_MAX = 10_000;

/**
 * Asks EKS for the address of a cluster, once. It needs the right `eks:DescribeCluster`.
 * @throws KubeFailure with the status of EKS and its words, or if the cluster has no address yet
 */
export async function describeCluster(options: DescribeOptions): Promise<EksAddress> {
  const { cluster, region, env } = options;
  const base = env.AWS_ENDPOINT_URL_EKS ?? env.AWS_ENDPOINT_URL ?? `https://eks.${region}.${suffixOf(region)}`;
  const url = new URL(`/clusters/${encodeURIComponent(cluster)}`, base);
  const what = `EKS does not describe the cluster ${cluster} in ${region}`;
  const response = await ask(url, options).catch((thrown: unknown) => {
    throw new KubeFailure(0, `${what}: ${reasonOf(thrown)}`, thrown);
  });
  if (response.status !== 200) {
    const why = asRecord(response.body)?.message ?? `status ${response.status}`;
    throw new KubeFailure(response.status, `${what}: ${String(why)}. ${hintOf(response.status)}`);
  }
  const { endpoint, certificateAuthority, status } = asRecord(asRecord(response.body)?.cluster) ?? {};
  const { data } = asRecord(certificateAuthority) ?? {};
  if (typeof endpoint !== 'string' || typeof data !== 'string')
    throw new KubeFailure(0, `the cluster ${cluster} has no address yet: it is ${String(status)}`);
  if (!isSafe(endpoint))
    throw new KubeFailure(
      0,
      `EKS names ${endpoint} as the address of the cluster ${cluster}: must be an https address`,
    );
  return { endpoint, certificateAuthority: data };
}

async function ask(url: URL, { region, credentials, sha256, signer: Signer, clock }: DescribeOptions) {
  const { host, hostname, protocol, port, pathname } = url;
  const place = { protocol, hostname, ...(port === '' ? {} : { port: Number(port) }), path: pathname };
  const signer = new Signer({ service: 'eks', region, credentials, sha256 });
  const signed = await signer.sign(
    { method: 'GET', ...place, query: {}, headers: { host } },
    { signingDate: new Date(clock.wallMs()) },
  );
  const response = await fetch(url, { headers: signed.headers, signal: AbortSignal.timeout(ASK_MS_MAX) });
  const text = await response.text();
  return { status: response.status, body: parsed(text) };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // a page of a proxy, of which the status is enough
  }
}

function hintOf(status: number): string {
  if (status === 404) return 'Check cluster.name and cluster.region of the fleet';
  return status === 403 ? 'Its role needs eks:DescribeCluster' : 'The next batch asks again';
}
