import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { createTable } from '../support/create-table.ts';
import { type CodeBlock, commandsOf, readPages } from '../support/docs/blocks.ts';
import { type FreshClone, makeFreshClone } from '../support/docs/fresh-clone.ts';
import { PageSession } from '../support/docs/page-session.ts';
import { isRunnable } from '../support/docs/toolchains.ts';
import { hasDynamo } from '../support/dynamo/index.ts';
import { type DynamoDbServer, hasDynamoDb, startDynamoDb } from '../support/dynamodb-server.ts';
import { type HubServer, startHub } from '../support/hub/hub-server.ts';
import { freePort } from '../support/index.ts';
import { type S3Server, startS3Server } from '../support/s3-server.ts';
import { type FakeServer, startFakeServer } from './fake-openai-server.ts';

const BLOCK_MS_MAX = 240_000;
/** Languages of pictures and of output. */
const TEXT = ['', 'mermaid'];
const PROGRAMS = ['js', 'py', 'go'];
/** The beginning of the trace that pages download. */
const TRACE = 'test/fixtures/simulate/mooncake-conversation-1500.jsonl.gz';
const COMMAND = /^\s*(\$ )?(npx|npm|node|curl|stator|DYN_\w+=|STATOR_\w+=)\b/m;

let clone: FreshClone;
let engine: FakeServer;

beforeAll(async () => {
  clone = makeFreshClone();
  engine = await startFakeServer();
});
afterAll(() => {
  engine.close();
  clone.remove();
});

describe.each(readPages(process.cwd()))('$file', ({ file, blocks }) => {
  let session: PageSession;
  const programs = new Set<string>();

  beforeAll(async () => {
    const others = new Map([
      ['5557', await freePort()],
      ['5558', await freePort()],
      ...(file === 'docs/kserve.md' ? [['8001', await freePort()] as const] : []),
    ]);
    session = new PageSession(clone, { http: await freePort(), engine: Number(new URL(engine.url).port), others });
    await session.run('[ -d node_modules ] || npm ci');
  });
  afterAll(() => session.close());

  async function play(block: CodeBlock): Promise<void> {
    if (block.language === 'json') JSON.parse(block.text);
    else if (block.language === 'yaml') parse(block.text);
    else if (PROGRAMS.includes(block.language)) programs.add(session.save(block.text));
    else if (TEXT.includes(block.language))
      expect(block.text, 'a block of commands names its language').not.toMatch(COMMAND);
    else if (block.language === 'sh') {
      for (const command of commandsOf(block)) {
        await session.run(command);
        for (const word of command.split(' ')) programs.delete(word);
      }
      await session.settle();
    } else throw new Error(`nobody knows how to run ${block.language}`);
  }

  for (const block of blocks) {
    if (block.notRun !== undefined || !isRunnable(block)) continue;
    it(`${block.place} works as written`, { timeout: BLOCK_MS_MAX }, () => play(block));
  }

  it('says how to run each program that it shows', () => {
    expect([...programs]).toEqual([]);
  });
});

/** A block that asks a deployment, of which a server on this machine is as good a one. */
const ASKS_DEPLOYMENT = /^curl .*\$BASE_URL/m;

describe('requests to a deployment', () => {
  const blocks = readPages(process.cwd())
    .flatMap((page) => page.blocks)
    .filter(({ notRun, text }) => notRun !== undefined && ASKS_DEPLOYMENT.test(text));
  let session: PageSession;

  beforeAll(async () => {
    const http = await freePort();
    session = new PageSession(clone, { http, engine: Number(new URL(engine.url).port), others: new Map() });
    await session.run('[ -d node_modules ] || npm ci');
    await session.run('BASE_URL=http://127.0.0.1:8000/v1');
    await session.run('API_KEY=none');
    await session.run('npm start');
  }, BLOCK_MS_MAX);
  afterAll(() => session.close());

  it.each(blocks)('$place works as written, but for where it goes', { timeout: BLOCK_MS_MAX }, async (block) => {
    for (const command of commandsOf(block)) if (ASKS_DEPLOYMENT.test(command)) await session.run(command);
  });

  it('are on the pages that say how to deploy', () => {
    expect(blocks.map(({ place }) => place.split(':')[0])).toEqual(
      expect.arrayContaining(['README.md', 'docs/deploy.md']),
    );
  });
});

describe.runIf(hasDynamoDb())('commands of a fleet in AWS', () => {
  const blocks = readPages(process.cwd())
    .flatMap((page) => page.blocks)
    .filter(({ notRun }) => notRun === 'needs a DynamoDB table' || notRun === 'needs a bucket');
  let table: DynamoDbServer;
  let bucket: S3Server;
  let hub: HubServer;
  let session: PageSession;

  beforeAll(async () => {
    [table, bucket, hub] = await Promise.all([startDynamoDb(), startS3Server(), startHub()]);
    hub.models.set('Qwen/Qwen3-0.6B', { files: filesOf('shared/artifacts/builtin-model') });
    await createTable({ tableName: 'stator-discovery', endpoint: table.url });
    bucket.objects.set('my-models/notes.txt', Buffer.from('a bucket is there if something is in it'));
    const http = await freePort();
    session = new PageSession(
      clone,
      { http, engine: Number(new URL(engine.url).port), others: new Map() },
      {
        ...{ AWS_ACCESS_KEY_ID: 'local', AWS_SECRET_ACCESS_KEY: 'local', STATOR_DYNAMODB_ENDPOINT: table.url },
        ...{ AWS_ENDPOINT: bucket.url, AWS_ALLOW_HTTP: 'true', HF_ENDPOINT: hub.url, HF_HUB_OFFLINE: '0' },
      },
    );
    await session.run('[ -d node_modules ] || npm ci');
  }, BLOCK_MS_MAX);
  afterAll(async () => {
    await session.close();
    await Promise.all([table.stop(), bucket.stop(), hub.stop()]);
  });

  it.each(blocks)('$place works beside stand-ins of the services', { timeout: BLOCK_MS_MAX }, async (block) => {
    for (const command of commandsOf(block)) await session.run(command);
    await session.settle();
  });

  function filesOf(folder: string): Record<string, Buffer> {
    return Object.fromEntries(readdirSync(folder).map((name) => [name, readFileSync(join(folder, name))]));
  }

  it('are a table and a bucket', () => {
    expect(new Set(blocks.map(({ notRun }) => notRun)).size).toBe(2);
  });
});

describe.runIf(hasDynamo())('commands beside Dynamo', () => {
  const blocks = readPages(process.cwd())
    .flatMap((page) => page.blocks)
    .filter(({ notRun }) => notRun === 'needs Dynamo');
  let session: PageSession;

  beforeAll(async () => {
    const path = `${dirname(process.env.STATOR_TEST_DYNAMO_PYTHON ?? '')}:${process.env.PATH}`;
    const loopback = { DYN_TCP_RPC_HOST: '127.0.0.1', DYN_EVENT_PLANE_HOST: '127.0.0.1', HF_HUB_OFFLINE: '1' };
    const ports = { http: await freePort(), engine: 0, others: new Map() };
    session = new PageSession(clone, ports, { PATH: path, ...loopback, DYN_SYSTEM_PORT: '0' });
    await session.run('[ -d node_modules ] || npm ci');
  }, BLOCK_MS_MAX);
  afterAll(() => session.close());

  it.each(blocks)('$place works as written', { timeout: BLOCK_MS_MAX }, async (block) => {
    for (const command of commandsOf(block)) await session.run(command);
  });

  it('are on the page that says how to move', () => {
    expect(new Set(blocks.map(({ place }) => place.split(':')[0]))).toEqual(new Set(['docs/migrate-from-dynamo.md']));
  });
});

/** A request to GitHub for a trace, whose beginning is in the repository. */
const FETCHES_TRACE = /^curl -LO https:\/\/\S+\/(\w+\.jsonl)$/;

describe('commands that replay a downloaded trace', () => {
  const blocks = readPages(process.cwd())
    .flatMap((page) => page.blocks)
    .filter(({ notRun }) => notRun === 'downloads a trace');
  let session: PageSession;

  beforeAll(async () => {
    session = new PageSession(clone, { http: await freePort(), engine: 0, others: new Map() });
    await session.run('[ -d node_modules ] || npm ci');
  }, BLOCK_MS_MAX);
  afterAll(() => session.close());

  it.each(blocks)('$place works with the beginning of that trace', { timeout: BLOCK_MS_MAX }, async (block) => {
    for (const command of commandsOf(block)) {
      const file = FETCHES_TRACE.exec(command)?.[1];
      await session.run(file === undefined ? command : `gunzip -c ${TRACE} > ${file}`);
    }
  });

  it('are on the page of the simulator', () => {
    expect(blocks.map(({ place }) => place.split(':')[0])).toEqual(['docs/simulate.md']);
  });
});

describe('every curl that sends a body', () => {
  const sends = readPages(process.cwd())
    .flatMap(({ blocks }) => blocks)
    .flatMap((block) => commandsOf(block).map((text) => ({ text, place: block.place })))
    .filter(({ text }) => /^(?:\$ )?curl .* (?:-d|--data\S*) /.test(text));

  it('says that it is JSON: a model refuses it without that', () => {
    expect(sends.length).toBeGreaterThan(8);
    const bare = sends.filter(({ text }) => !/content-type: application\/json/i.test(text));
    expect(bare.map(({ place, text }) => `${place}: ${text}`)).toEqual([]);
  });
});

describe('the clone in which all of that ran', () => {
  it('has no changes that git would show', () => {
    expect(clone.changes()).toBe('');
  });
});
