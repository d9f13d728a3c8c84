import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * The instance metadata service of one instance, with IMDSv2 required. Tokens and statuses follow AWS's page "Use the
 * Instance Metadata Service to access instance metadata", the tree "Instance metadata categories". Notices follow "Spot
 * Instance interruption notices", "EC2 instance rebalance recommendations" and "Retrieve the target lifecycle state
 * through instance metadata".
 */
export interface FakeImds {
  readonly url: string;
  /** Values by their path under `/latest/meta-data/`; a path without a value is 404. */
  readonly values: Map<string, string>;
  /** `METHOD path` of each request, in order. */
  readonly asked: string[];
  /** Answers the next requests with these statuses, one each, in place of the right answer. */
  readonly failures: number[];
  /** Answers no request while it is set. */
  isSilent: boolean;
  /** Makes every token invalid, as a stop and start of the instance does. */
  expireTokens(): void;
  setTarget(state: string): void;
  announceSpot(action: 'terminate' | 'stop' | 'hibernate', at: Date): void;
  announceRebalance(at: Date): void;
  stop(): Promise<void>;
}

export interface FakeInstance {
  readonly instanceId?: string;
  readonly instanceType?: string;
  readonly zone?: string;
  readonly lifeCycle?: 'on-demand' | 'spot' | 'scheduled' | 'capacity-block';
  /** `autoscaling/target-lifecycle-state`. @default InService */
  readonly target?: string;
  /** Source of time, in ms. @default the machine's */
  readonly nowMs?: () => number;
}

const TOKEN_PATH = '/latest/api/token';
const TREE = '/latest/meta-data/';
const TTL_HEADER = 'x-aws-ec2-metadata-token-ttl-seconds';
const TTL_SECS_MAX = 21_600;

/** Starts one on loopback. */
export async function startFakeImds(instance: FakeInstance = {}): Promise<FakeImds> {
  const { nowMs = () => Date.now() } = instance;
  const tokens = new Map<string, number>(); // with the time at which each ends
  const values = new Map(Object.entries(treeOf(instance)));
  const http = createServer((request, response) => {
    fake.asked.push(`${request.method} ${request.url}`);
    if (fake.isSilent) return;
    const failure = fake.failures.shift();
    if (failure !== undefined) response.writeHead(failure).end();
    else if (request.url === TOKEN_PATH) giveToken(request, response, tokens, nowMs());
    else giveValue(request, response, values, (token) => (tokens.get(token) ?? 0) > nowMs());
  });
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  const fake: FakeImds = {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}`,
    values,
    asked: [],
    failures: [],
    isSilent: false,
    expireTokens: () => tokens.clear(),
    setTarget: (state) => void values.set('autoscaling/target-lifecycle-state', state),
    announceSpot: (action, at) =>
      void values.set('spot/instance-action', JSON.stringify({ action, time: secondsOf(at) })),
    announceRebalance: (at) =>
      void values.set('events/recommendations/rebalance', JSON.stringify({ noticeTime: secondsOf(at) })),
    async stop() {
      http.closeAllConnections();
      http.close();
      await once(http, 'close');
    },
  };
  return fake;
}

function treeOf(instance: FakeInstance): Record<string, string> {
  return {
    'instance-id': instance.instanceId ?? 'i-0123456789abcdef0',
    'instance-type': instance.instanceType ?? 'g6e.12xlarge',
    'placement/availability-zone': instance.zone ?? 'us-east-1b',
    'instance-life-cycle': instance.lifeCycle ?? 'on-demand',
    'local-ipv4': '10.0.0.7',
    'autoscaling/target-lifecycle-state': instance.target ?? 'InService',
  };
}

/** Times there have no milliseconds. */
function secondsOf(at: Date): string {
  return at.toISOString().replace(/\.\d+Z$/, 'Z');
}

/** Only PUT gives tokens. A life that is missing or out of range is a bad request; proxies that forward are refused. */
function giveToken(
  request: IncomingMessage,
  response: ServerResponse,
  tokens: Map<string, number>,
  nowMs: number,
): void {
  const ttl = Number(request.headers[TTL_HEADER]);
  if (request.method !== 'PUT') response.writeHead(405).end();
  else if (request.headers['x-forwarded-for'] !== undefined) response.writeHead(403).end();
  else if (!Number.isInteger(ttl) || ttl < 1 || ttl > TTL_SECS_MAX) response.writeHead(400).end();
  else {
    const token = `token-${tokens.size}-${nowMs}==`;
    tokens.set(token, nowMs + ttl * 1000);
    response.writeHead(200, { 'content-type': 'text/plain', [TTL_HEADER]: String(ttl) }).end(token);
  }
}

/** A folder answers with the names in it, one a line; those of folders end in a slash. */
function giveValue(
  { method, url = '', headers }: IncomingMessage,
  response: ServerResponse,
  values: ReadonlyMap<string, string>,
  isValid: (token: string) => boolean,
): void {
  const token = headers['x-aws-ec2-metadata-token'];
  const path = url.startsWith(TREE) ? url.slice(TREE.length) : undefined;
  const value = path === undefined ? undefined : (values.get(path) ?? listing(path, values));
  if (method !== 'GET' && method !== 'HEAD') response.writeHead(405).end();
  else if (typeof token !== 'string' || !isValid(token)) response.writeHead(401).end();
  else if (value === undefined) response.writeHead(404, { 'content-type': 'text/html' }).end('404 - Not Found');
  else response.writeHead(200, { 'content-type': 'text/plain' }).end(value);
}

function listing(path: string, values: ReadonlyMap<string, string>): string | undefined {
  const folder = path === '' || path.endsWith('/') ? path : `${path}/`;
  const below = [...values.keys()].filter((key) => key.startsWith(folder)).map((key) => key.slice(folder.length));
  const names = new Set(below.map((key) => (key.includes('/') ? `${key.split('/', 1)[0]}/` : key)));
  return names.size === 0 ? undefined : [...names].sort().join('\n');
}
