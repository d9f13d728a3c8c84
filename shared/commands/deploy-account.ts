import { quietSdkNotice } from '../discovery/index.ts';
import { reasonOf } from '../errors/index.ts';
import { isRecord } from '../records/index.ts';

/** Services of AWS that the checks ask. */
type Service = 'cloudformation' | 'ec2' | 'lambda';
/** Services that speak JSON about an operation named in a header. */
type JsonService = 'ecs' | 'secretsmanager';

/** The account and region that a deployment goes to. */
export interface Account {
  /**
   * Asks a service, bounded in time.
   * @returns the body of its answer: XML of `ec2` and `cloudformation`, JSON of `lambda`
   * @throws Error with the service's code and message when it refuses
   */
  get(service: Service, path: string, query: Readonly<Record<string, string>>): Promise<string>;
  /**
   * Asks for an operation, bounded in time, once.
   * @param target name of the operation after that of the protocol
   * @returns the JSON of its answer
   * @throws Error with the service's code and message when it refuses
   */
  post(service: JsonService, target: string, input: object): Promise<string>;
  /** Reads one of its quotas, bounded in time. @param quota as Service Quotas knows it */
  quotaOf(quota: { readonly service: string; readonly code: string }): Promise<number>;
  readonly region: string;
  close(): void;
}

const ASK_MS_MAX = 10_000;

/** One request to a service. */
interface Asked {
  readonly method: 'GET' | 'POST';
  readonly query: Readonly<Record<string, string>>;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

/**
 * Opens the account of the usual credentials in the region of `AWS_REGION`; `AWS_ENDPOINT_URL` names another service.
 * @throws Error if there is no region, or there are no credentials
 */
export async function openAccount(): Promise<Account> {
  quietSdkNotice();
  const { GetServiceQuotaCommand, ServiceQuotasClient, SignatureV4 } = await import('./deploy-quota-parts.ts');
  // The client finds region and credentials in all the places where they may be.
  const client = new ServiceQuotasClient({ maxAttempts: 2 });
  const { credentials, sha256 } = client.config;
  const region = await client.config.region().catch((thrown: unknown) => {
    throw new Error(`AWS_REGION names no region (${reasonOf(thrown)}): export AWS_REGION=eu-west-1, or another one`);
  });
  await client.config.credentials().catch((thrown: unknown) => {
    const ways = 'aws configure, aws sso login, or AWS_PROFILE=NAME for another profile';
    throw new Error(`there are no credentials for AWS (${reasonOf(thrown)}): ${ways}`);
  });
  const baseOf = (service: string): string =>
    process.env.AWS_ENDPOINT_URL ?? `https://${service}.${region}.${suffixOf(region)}`;
  const send = async (name: string, service: Service | JsonService, path: string, asked: Asked): Promise<string> => {
    const { query, headers, ...request } = asked;
    const url = new URL(path, baseOf(service));
    const { hostname, pathname, protocol, host } = url;
    const port = url.port === '' ? {} : { port: Number(url.port) };
    const place = { protocol, hostname, ...port, path: pathname, query, headers: { host, ...headers } };
    const signer = new SignatureV4({ service, region, credentials, sha256 });
    const signed = await signer.sign({ ...request, ...place });
    url.search = new URLSearchParams(query).toString();
    const signal = AbortSignal.timeout(ASK_MS_MAX);
    const response = await fetch(url, { ...request, headers: signed.headers, signal });
    const text = await response.text();
    if (!response.ok) throw new Error(`${name}: ${describeRefusal(text) ?? `status ${response.status}`}`);
    return text;
  };
  return {
    region,
    get: (service, path, query) => send(service, service, path, { method: 'GET', query, headers: {} }),
    post: (service, target, input) => {
      const headers = { 'content-type': 'application/x-amz-json-1.1', 'x-amz-target': target };
      return send(target, service, '/', { method: 'POST', query: {}, headers, body: JSON.stringify(input) });
    },
    quotaOf: async ({ service, code }) => {
      const command = new GetServiceQuotaCommand({ ServiceCode: service, QuotaCode: code });
      const { Quota: quota } = await client.send(command, { abortSignal: AbortSignal.timeout(ASK_MS_MAX) });
      if (quota?.Value === undefined) throw new Error('the service names no value');
      return quota.Value;
    },
    close: () => client.destroy(),
  };
}

function suffixOf(region: string): string {
  return region.startsWith('cn-') ? 'amazonaws.com.cn' : 'amazonaws.com';
}

/** Returns the message of a service's refusal, in either of its two formats. */
function describeRefusal(body: string): string | undefined {
  if (body.trimStart().startsWith('<')) return textsOf(body, 'Message')[0];
  try {
    const parsed: unknown = JSON.parse(body);
    const message = isRecord(parsed) ? (parsed.message ?? parsed.Message) : undefined;
    return typeof message === 'string' ? message : undefined;
  } catch {
    return undefined; // a proxy's page, of which the status is enough
  }
}

/** Returns the texts of all elements with a name in a service's XML, which has no attributes, comments or CDATA. */
export function textsOf(xml: string, name: string): readonly string[] {
  return xml
    .split(`<${name}>`)
    .slice(1)
    .map((rest) => plainText(rest.slice(0, Math.max(0, rest.indexOf(`</${name}>`)))));
}

const ENTITIES: Readonly<Record<string, string>> = { lt: '<', gt: '>', quot: '"', apos: "'", amp: '&' };

function plainText(text: string): string {
  return text.replace(/&(lt|gt|quot|apos|amp);/g, (_, name: string) => ENTITIES[name] ?? '');
}
