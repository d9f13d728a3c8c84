import { mkdtemp, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { seededRandom } from '../../../shared/clock/index.ts';
import { errorCodes } from '../../../shared/errors/codes.ts';
import { freePort } from '../free-port.ts';
import { spawnNode } from '../spawn-node.ts';
import { waitUntil } from '../wait-until.ts';
import { type Health, PROGRAM, START_MS_MAX, WatchedFrontend } from './frontend-watch.ts';
import { HostileGrpcClients } from './grpc-clients.ts';
import { HostileValues } from './hostile-values.ts';
import { HOSTILE_MODELS, type HostilePeers, startHostilePeers } from './peers.ts';
import { HostileRequests, type OpenApi } from './requests.ts';

const ANSWER_MS_MAX = 3000;
const SETTLED_MS_MAX = 15_000;
const DEFECT = /^.*(TypeError|RangeError|ReferenceError|[Uu]nhandled|[Uu]ncaught).*$/m;

/** A frontend with an honest worker and hostile ones, and cases to play against it. */
export interface FuzzSession {
  /**
   * Plays the case of one seed.
   * @throws Error that says which answer was wrong
   */
  play(seed: number): Promise<void>;
  look(): Promise<Health>;
  /** Number of answers by status. */
  readonly statuses: ReadonlyMap<string, number>;
  close(): Promise<void>;
}

/** Starts the built program (`dist/`), with file discovery in a folder of its own. */
export async function startFuzzSession(seed: number): Promise<FuzzSession> {
  const folder = await mkdtemp(join(tmpdir(), 'stator-fuzz-session-'));
  const env = { DYN_DISCOVERY_BACKEND: 'file', DYN_FILE_KV: join(folder, 'kv'), TMPDIR: folder };
  const host = { DYN_TCP_RPC_HOST: '127.0.0.1', DYN_EVENT_PLANE_HOST: '127.0.0.1', DYN_SYSTEM_HOST: '127.0.0.1' };
  const worker = spawnNode([PROGRAM, 'worker', '--engine=mocker'], { env: { ...env, ...host, DYN_SYSTEM_PORT: '0' } });
  const grpcPort = await freePort();
  // Node does not notice that some of these clients have left, because a session that waits to write does not read.
  const pings = { STATOR_GRPC_KEEPALIVE_TIME_MS: '1000', STATOR_GRPC_KEEPALIVE_TIMEOUT_MS: '1000' };
  const frontend = await WatchedFrontend.start(
    folder,
    { ...env, ...pings },
    { args: [`--grpc-port=${grpcPort}`], defect: DEFECT },
  );
  const grpc = new HostileGrpcClients(grpcPort);
  const { url } = frontend;
  await worker.waitForOutput(/worker is ready/, START_MS_MAX);
  await waitUntil(async () => (await fetch(`${url}/health`)).ok, { timeoutMs: START_MS_MAX });
  const peers = await startHostilePeers(join(folder, 'kv'), seed);
  await waitUntil(async () => (await (await fetch(`${url}/v1/models`)).text()).includes(HOSTILE_MODELS[0]), {
    timeoutMs: START_MS_MAX,
    what: 'the hostile models',
  });
  const document = (await (await fetch(`${url}/openapi.json`)).json()) as OpenApi;
  const statuses = new Map<string, number>();
  return {
    statuses,
    play: (caseSeed) => playCase(caseSeed, { url, document, peers, frontend, grpc, statuses }),
    look: async () => {
      grpc.release();
      await waitUntil(async () => (await heldBytes(url)) === 0, { timeoutMs: SETTLED_MS_MAX, what: 'no body held' });
      return frontend.look();
    },
    close: async () => {
      grpc.close();
      await peers.close();
      await Promise.all([frontend.close(), worker.kill()]);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

interface Playground {
  readonly url: string;
  readonly document: OpenApi;
  readonly peers: HostilePeers;
  readonly frontend: WatchedFrontend;
  readonly grpc: HostileGrpcClients;
  readonly statuses: Map<string, number>;
}

/** Returns the bytes that the frontend holds of unfinished requests of all dialects. */
async function heldBytes(url: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(/^stator_frontend_body_bytes (\S+)$/m.exec(text)?.[1]);
}

async function playCase(seed: number, playground: Playground): Promise<void> {
  const { url, document, peers, frontend, grpc, statuses } = playground;
  const values = new HostileValues(seededRandom(seed));
  if (values.chance(0.1)) await peers.writeDiscovery(values);
  const models = ['stator-mini', 'stator-mini', ...HOSTILE_MODELS, 'spoilt-1', ''];
  const { pieces, leaves } = new HostileRequests(document, models, values).next();
  const answer = await send(new URL(url), pieces, leaves);
  await grpc.play(new HostileValues(seededRandom(seed ^ 0x67_72_70_63)));
  frontend.mustRun();
  const status = /^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1] ?? 'none';
  statuses.set(status, (statuses.get(status) ?? 0) + 1);
  const isEarned = /liar|noise|spoilt/.test(Buffer.concat(pieces).toString('latin1'));
  const wrong = leaves ? undefined : judge(answer, isEarned);
  if (wrong !== undefined) throw new Error(`${wrong}\n${Buffer.concat(pieces).toString('latin1').slice(0, 2000)}`);
}

/** Sends the pieces in separate turns. Reads until the server closes the connection or the client's patience ends. */
function send({ hostname, port }: URL, pieces: readonly Buffer[], leaves: boolean): Promise<string> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    const socket = connect(Number(port), hostname);
    const finish = (): void => {
      clearTimeout(deadline);
      socket.destroy();
      resolve(Buffer.concat(chunks).toString('utf8'));
    };
    const deadline = setTimeout(finish, ANSWER_MS_MAX);
    socket
      .on('data', (chunk) => chunks.push(chunk))
      .on('error', finish)
      .on('close', finish);
    socket.on('connect', async () => {
      for (const piece of pieces) {
        if (!socket.destroyed) socket.write(piece);
        if (pieces.length > 1) await sleep(1);
      }
      if (leaves) finish();
    });
  });
}

const CODES: ReadonlySet<string> = new Set(errorCodes);
const ALLOWED_5XX: ReadonlySet<number> = new Set([500, 501, 502, 503, 504]);

/**
 * Returns the fault of an answer, or undefined. The client's own patience may cut an answer.
 *
 * @param isEarned whether the request went to a hostile worker, which may fail it
 */
function judge(answer: string, isEarned: boolean): string | undefined {
  for (const [, head = '', code = '', rest = ''] of answer.matchAll(
    /(?:^|\n)(HTTP\/1\.1 (\d{3})[^\n]*\r\n)([\s\S]*?)(?=HTTP\/1\.1 \d{3} |$)/g,
  )) {
    const status = Number(code);
    if (status < 400) continue;
    const [headers = '', body = ''] = rest.split(/\r\n\r\n([\s\S]*)/);
    if (status >= 500 && !ALLOWED_5XX.has(status)) return `status ${status}`;
    if (!/content-type: application\/json/i.test(headers) || body === '') continue; // HEAD, or cut
    const text = /transfer-encoding: chunked/i.test(headers) ? body.replaceAll(/(^|\r\n)[0-9a-f]+\r\n/g, '') : body;
    if (!/"error"/.test(text) && !/"status"|"message"|"ready"/.test(text))
      return `${head.trim()} with a body that is not an envelope: ${text.slice(0, 500)}`;
    const [, named] = /"code":"(\w+)"/.exec(text) ?? [];
    if (named !== undefined && !CODES.has(named)) return `a code that is not in the table: ${text.slice(0, 500)}`;
    if (status === 500 && !isEarned) return `a 500 that no worker caused: ${text.slice(0, 500)}`;
  }
  return undefined;
}
