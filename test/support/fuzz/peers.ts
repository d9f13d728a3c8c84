import { mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { seededRandom, systemClock } from '../../../shared/clock/index.ts';
import type { IncomingCall } from '../../../shared/planes/index.ts';
import { createTcpRequestPlane } from '../../../shared/planes/request/tcp/plane.ts';
import type { EngineOutput } from '../../../shared/protocol/index.ts';
import { HostileValues } from './hostile-values.ts';
import { frame } from './parts.ts';

/** Models of the hostile workers: one that speaks the protocol of the plane and lies, one whose bytes are noise. */
export const HOSTILE_MODELS = ['liar', 'noise'] as const;
const NAMESPACE = 'hostile';
const RECORDS_AT_ONCE = 300;
const HUGE_BYTES = 8 * 1024 * 1024;
const KEEP_ALIVE_MS = 1000;

/** Hostile workers, and a hostile writer of discovery. */
export interface HostilePeers {
  /** Writes, damages and deletes files of the discovery folder. */
  writeDiscovery(values: HostileValues): Promise<void>;
  close(): Promise<void>;
}

/**
 * Starts the hostile peers.
 * @param root folder of file discovery, in which an honest worker has its records
 */
export async function startHostilePeers(root: string, seed: number): Promise<HostilePeers> {
  const values = new HostileValues(seededRandom(seed));
  const plane = createTcpRequestPlane({ clock: systemClock, host: '127.0.0.1' });
  const liar = await plane.serve({ instanceId: 'a1' });
  const sockets = new Set<Socket>();
  const noise = createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket)).on('error', () => {});
    socket.on('data', () => {
      if (values.chance(0.2)) socket.destroy();
      else if (!socket.destroyed) socket.write(values.chance(0.2) ? values.bytes(500) : frame(values));
    });
  });
  await new Promise<void>((resolve) => noise.listen(0, '127.0.0.1', resolve));
  const noisePort = (noise.address() as AddressInfo).port;
  const transports = [
    liar.handle(`a1/${NAMESPACE}/backend/generate`, (call) => lie(call, values)),
    { tcp: `127.0.0.1:${noisePort}/b2/${NAMESPACE}/backend/generate` },
  ];
  const folder = join(root, 'stator', 'v1');
  const card = await readHonestCard(folder);
  const register = async (): Promise<void> => {
    for (const [at, model] of HOSTILE_MODELS.entries()) {
      const address = {
        namespace: NAMESPACE,
        component: 'backend',
        endpoint: 'generate',
        instance_id: ['a1', 'b2'][at],
      };
      const name = encodeURIComponent(`${NAMESPACE}/backend/generate/${address.instance_id}`);
      const endpoint = { type: 'Endpoint', ...address, transport: transports[at] };
      await writeFile(join(folder, 'instances', name), JSON.stringify(endpoint));
      const own = { ...card, display_name: model, slug: model, aliases: [] };
      await writeFile(
        join(folder, 'mdc', name),
        JSON.stringify({ type: 'Model', ...address, registered_at: 1, card: own }),
      );
    }
  };
  await register();
  const timer = setInterval(() => void register().catch(() => {}), KEEP_ALIVE_MS); // the folder may be gone at the end
  return {
    writeDiscovery: (given) => spoilDiscovery(given.one([folder, join(root, 'v1')]), card, given),
    close: async () => {
      clearInterval(timer);
      for (const socket of sockets) socket.destroy();
      noise.close();
      await liar.close();
      await plane.close();
    },
  };
}

async function readHonestCard(folder: string): Promise<Record<string, unknown>> {
  const [name = ''] = await readdir(join(folder, 'mdc'));
  const { card } = JSON.parse(await readFile(join(folder, 'mdc', name), 'utf8')) as { card: Record<string, unknown> };
  return card;
}

/** Answers with anything: nothing, too much, at the wrong time, of the wrong kind. */
async function lie(call: IncomingCall, values: HostileValues): Promise<void> {
  if (values.chance(0.1)) throw new Error(values.text());
  const fields = [
    'token_ids',
    'text',
    'log_probs',
    'top_logprobs',
    'finish_reason',
    'index',
    'completion_usage',
    'stop_reason',
  ];
  for (let count = values.random.below(12); count > 0 && !call.signal.aborted; count--) {
    const ids = Uint32Array.from({ length: values.random.below(values.chance(0.02) ? 20_000 : 9) }, () =>
      values.random.below(values.chance(0.1) ? 2 ** 32 : 2000),
    );
    const kind = values.random.below(4);
    if (kind === 0) call.tokens(0, ids, 0, ids.length);
    else if (kind === 1) call.output({ token_ids: Array.from(ids), text: values.text() } as unknown as EngineOutput);
    else {
      const output = Object.fromEntries(fields.filter(() => values.chance(0.3)).map((name) => [name, values.json()]));
      call.output(output as unknown as EngineOutput);
    }
    if (values.chance(0.1)) await sleep(1);
  }
  if (values.chance(0.9)) call.end();
}

async function spoilDiscovery(folder: string, card: Record<string, unknown>, values: HostileValues): Promise<void> {
  const bucket = values.one(['instances', 'mdc', 'event_channels', 'instances', 'mdc', 'other']);
  await mkdir(join(folder, bucket), { recursive: true, mode: 0o700 });
  const path = (at: number): string => join(folder, bucket, `${NAMESPACE}%2Fx%2Fgenerate%2F${at.toString(16)}`);
  const record = (at: number): object => ({
    type: values.one(['Endpoint', 'Model', 'Model', 'EventChannel']),
    ...{ namespace: NAMESPACE, component: 'x', endpoint: 'generate', instance_id: at.toString(16) },
    transport: values.chance(0.7) ? { tcp: `127.0.0.1:1/${at.toString(16)}/${NAMESPACE}/x/generate` } : values.json(),
    card: { ...card, display_name: `spoilt-${at % 5}`, [values.one(Object.keys(card))]: values.json() },
  });
  const at = values.random.below(1000);
  switch (values.random.below(7)) {
    case 0:
      return writeOver(path(at), values.bytes(2000));
    case 1:
      return writeOver(path(at), values.brokenText(record(at)));
    case 2:
      await rm(path(at), { force: true, recursive: true });
      return unlessThere(symlink(values.one(['/dev/zero', '/etc/passwd', folder, join(folder, 'nowhere')]), path(at)));
    case 3:
      return values.chance(0.2) ? writeOver(path(at), Buffer.alloc(HUGE_BYTES, 0x5b)) : undefined;
    case 4:
      await rm(path(at), { force: true, recursive: true });
      await mkdir(path(at), { recursive: true });
      return;
    case 5:
      if (!values.chance(0.1)) return;
      for (let each = 0; each < RECORDS_AT_ONCE; each++) await writeOver(path(each), JSON.stringify(record(each)));
      return;
    default:
      return writeOver(path(at), JSON.stringify(record(at)));
  }
}

/** Writes a file in place of links and folders that earlier cases may have left. */
async function writeOver(path: string, text: string | Buffer): Promise<void> {
  await rm(path, { force: true, recursive: true });
  // does not follow a link that another case has made meanwhile
  await unlessThere(writeFile(path, text, { flag: 'wx' }));
}

/** Accepts that a file exists, because another case may have made it at the same time. */
async function unlessThere(making: Promise<void>): Promise<void> {
  try {
    await making;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}
