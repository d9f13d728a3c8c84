import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect } from 'vitest';

/** Contents of an account. The services refuse questions about a part that is left out. */
export interface AccountState {
  /** Quotas by their codes. */
  readonly quotas?: Readonly<Record<string, number>>;
  /** Ids of the zones of its region, by name. */
  readonly zones?: Readonly<Record<string, string>> | undefined;
  /** Zones in which types of machines are sold, by type. */
  readonly offerings?: Readonly<Record<string, readonly string[]>> | undefined;
  /** Physical ids of deployed resources, by stack and logical id. */
  readonly deployed?: Readonly<Record<string, Readonly<Record<string, string>>>> | undefined;
  /** Version numbers of each function, and the targets of its aliases. */
  readonly functions?: Readonly<
    Record<string, { readonly versions: readonly number[]; readonly aliases: readonly Alias[] }>
  >;
}

interface Alias {
  readonly FunctionVersion: string;
  readonly RoutingConfig?: { readonly AdditionalVersionWeights: Readonly<Record<string, number>> };
}

type Answer = readonly [status: number, body: string];

/** Versions in one page, few enough that answers have several pages. */
const PAGE = 5;

/** Services of AWS for an account whose state a test sets, as far as `stator deploy check` uses them. */
export class FakeAccount {
  state: AccountState = {};
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(): Promise<FakeAccount> {
    const server = createServer((request, response) => {
      void answerOf(fake.state, request).then(([status, body]) => {
        response.writeHead(status, { 'content-type': body.startsWith('<') ? 'text/xml' : 'application/json' });
        response.end(body);
      });
    });
    const fake = new FakeAccount(server);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return fake;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

async function answerOf(state: AccountState, request: IncomingMessage): Promise<Answer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  expect(request.headers.authorization).toMatch(/^AWS4-HMAC-SHA256 Credential=somebody\//);
  if (request.method === 'POST') return quotaOf(state, request, Buffer.concat(chunks).toString());
  const url = new URL(request.url ?? '', 'http://account.example');
  if (url.searchParams.get('Action') === 'DescribeStackResource') return resourceOf(state, url.searchParams);
  if (url.searchParams.get('Action') === 'DescribeAvailabilityZones') return zonesOf(state, url.searchParams);
  if (url.searchParams.get('Action') === 'DescribeInstanceTypeOfferings') return offeringsOf(state, url.searchParams);
  const [, name = '', list = ''] = /^\/2015-03-31\/functions\/([^/]+)\/(versions|aliases)$/.exec(url.pathname) ?? [];
  return list === ''
    ? xmlError('UnknownOperation', url.href)
    : listOf(state, name, list, url.searchParams.get('Marker'));
}

function quotaOf({ quotas = {} }: AccountState, { headers }: IncomingMessage, body: string): Answer {
  expect(headers['x-amz-target']).toBe('ServiceQuotasV20190624.GetServiceQuota');
  const { QuotaCode } = JSON.parse(body) as { QuotaCode: string };
  const value = quotas[QuotaCode];
  return value === undefined
    ? [400, JSON.stringify({ __type: 'AccessDeniedException', Message: 'User is not authorized' })]
    : [200, JSON.stringify({ Quota: { Value: value } })];
}

function resourceOf({ deployed }: AccountState, query: URLSearchParams): Answer {
  if (deployed === undefined) return xmlError('AccessDenied', 'User is not authorized to perform: "cloudformation:*"');
  const stack = query.get('StackName') ?? '';
  const id = query.get('LogicalResourceId') ?? '';
  const name = deployed[stack]?.[id];
  if (name === undefined) return xmlError('ValidationError', `Stack '${stack}' does not exist`);
  return [
    200,
    `<DescribeStackResourceResponse><DescribeStackResourceResult><StackResourceDetail>
      <PhysicalResourceId>${name}</PhysicalResourceId><LogicalResourceId>${id}</LogicalResourceId>
    </StackResourceDetail></DescribeStackResourceResult></DescribeStackResourceResponse>`,
  ];
}

function zonesOf({ zones }: AccountState, query: URLSearchParams): Answer {
  if (zones === undefined)
    return [403, '<Response><Errors><Error><Message>You are not authorized</Message></Error></Errors></Response>'];
  expect([query.get('Filter.1.Name'), query.get('Filter.1.Value.1')]).toEqual(['zone-type', 'availability-zone']);
  const items = Object.entries(zones).map(
    ([name, id]) => `<item><zoneState>available</zoneState><zoneName>${name}</zoneName><zoneId>${id}</zoneId></item>`,
  );
  const list = `<availabilityZoneInfo>${items.join('')}</availabilityZoneInfo>`;
  return [200, `<DescribeAvailabilityZonesResponse>${list}</DescribeAvailabilityZonesResponse>`];
}

/** Answers in pages of one offering. */
function offeringsOf({ offerings }: AccountState, query: URLSearchParams): Answer {
  if (offerings === undefined) return xmlError('UnauthorizedOperation', 'You are not authorized');
  expect([query.get('LocationType'), query.get('Filter.1.Name')]).toEqual(['availability-zone', 'instance-type']);
  const asked = [...query].flatMap(([name, value]) => (name.startsWith('Filter.1.Value.') ? [value] : []));
  const all = asked.flatMap((type) => (offerings[type] ?? []).map((zone) => [type, zone] as const));
  const at = Number(query.get('NextToken') ?? 0);
  const items = all.slice(at, at + 1).map(([type, zone]) => {
    const place = `<locationType>availability-zone</locationType><location>${zone}</location>`;
    return `<item><instanceType>${type}</instanceType>${place}</item>`;
  });
  const next = at + 1 < all.length ? `<nextToken>${at + 1}</nextToken>` : '';
  const set = `<instanceTypeOfferingSet>${items.join('')}</instanceTypeOfferingSet>${next}`;
  return [200, `<DescribeInstanceTypeOfferingsResponse>${set}</DescribeInstanceTypeOfferingsResponse>`];
}

function xmlError(code: string, message: string): Answer {
  const text = message.replaceAll('"', '&quot;');
  return [400, `<ErrorResponse><Error><Code>${code}</Code><Message>${text}</Message></Error></ErrorResponse>`];
}

function listOf({ functions = {} }: AccountState, name: string, list: string, marker: string | null): Answer {
  const found = functions[name];
  if (found === undefined) return [404, JSON.stringify({ Type: 'User', Message: 'Function not found' })];
  if (list === 'aliases') return [200, JSON.stringify({ Aliases: found.aliases })];
  const versions = ['$LATEST', ...found.versions.map(String)].map((Version) => ({ Version }));
  const from = Number(marker ?? 0);
  const NextMarker = from + PAGE < versions.length ? String(from + PAGE) : null;
  return [200, JSON.stringify({ Versions: versions.slice(from, from + PAGE), NextMarker })];
}
