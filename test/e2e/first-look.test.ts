import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { builtinModelPath } from '../../shared/artifacts/index.ts';
import { type StatorProcess, spawnProgram, useFleet, waitUntil } from '../support/index.ts';
import { playExamples } from '../support/openapi-examples.ts';
import { startFakeServer } from './fake-openai-server.ts';

const fleet = useFleet();
const PROGRAM = process.env.STATOR_TEST_PROGRAM || join(import.meta.dirname, '../../dist/stator.js');

/** The commands that are printed under the heading, as a newcomer copies them. */
function printedUnder(local: StatorProcess, heading: RegExp): string {
  const lines = local.stdout().split('\n');
  const from = lines.findIndex((line) => heading.test(line)) + 1;
  const until = lines.findIndex((line, at) => at >= from && line.trim() === '');
  expect(from).toBeGreaterThan(0);
  return lines.slice(from, until).join('\n');
}

/** Runs them in a shell, with the command that is tested as `npx stator`. */
async function paste(commands: string): Promise<string> {
  const shell = spawnProgram('bash', ['-e', '-c', commands.replaceAll('npx stator', `${process.execPath} ${PROGRAM}`)]);
  expect(await shell.exited, shell.stderr()).toBe(0);
  return shell.stdout();
}

/** The text of a stream of chunks. */
function textOf(events: string): string {
  const chunks = [...events.matchAll(/^data: (\{.*)$/gm)].map(([, json]) => JSON.parse(json as string));
  return chunks.map(({ choices: [choice] }) => choice?.delta?.content ?? choice?.text ?? '').join('');
}

describe('what stator local prints to try', () => {
  it('asks the mock what it is, and gets told', async () => {
    const local = await fleet.local(['--speedup-ratio=100']);
    const text = textOf(await paste(printedUnder(local, /Try it:/)));
    expect(text).toMatch(
      /^You are talking to a mock worker\..*Attach a real engine.*\n\nStator is .*This program has/s,
    );
    expect(local.stdout()).toContain(`${local.url}/docs`);
    expect((await fetch(`${local.url}/docs`)).status).toBe(200);
    await local.kill();
  });

  it('shows in kv mode that a prompt of several blocks is found at the worker that has computed it', async () => {
    const local = await fleet.local(['--speedup-ratio=100', '--router-mode=kv']);
    const printed = printedUnder(local, /several blocks/);
    const [head, ...rows] = (await paste(printed)).split('\n\n')[1]!.trim().split('\n'); // behind the head lines
    const chosen = rows.find((row) => row.startsWith('*'))?.split(/\s+/);
    const device = chosen?.[head!.trim().split(/\s+/).indexOf('device') + 1];
    expect(Number(device)).toBeGreaterThanOrEqual(4);
    await local.kill();
  });

  it('asks a model without a chat template for a completion, under a name that a shell would trip over', async () => {
    const folder = join(fleet.temporary, "it's base");
    cpSync(builtinModelPath(), folder, { recursive: true });
    const file = join(folder, 'tokenizer_config.json');
    writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), chat_template: undefined }));
    const local = await fleet.local(['--speedup-ratio=100', '--model-path', folder, '--num-workers=1']);
    const printed = printedUnder(local, /Try it:/);
    expect(printed).toContain('/v1/completions');
    expect(textOf(await paste(printed))).toMatch(/^You are talking to a mock worker/);
    await local.kill();
  });

  it('goes to the server behind, also under paths of the operator’s choice', async () => {
    const fake = await startFakeServer();
    const local = await fleet.local(['--engine=openai', `--engine-url=${fake.url}`], {
      DYN_HTTP_SVC_CHAT_PATH_ENV: '/own/chat',
    });
    const printed = printedUnder(local, /Try it:/);
    expect(printed).toContain('/own/chat');
    const answer = paste(printed);
    await waitUntil(() => fake.requests.length === 1, { what: 'the request at the server behind' });
    fake.goOn(); // it holds the rest of its answer until it is told
    expect(textOf(await answer)).toBe('Hello there');
    await local.kill();
    fake.close();
  });
});

describe('a server with several models', () => {
  /** The error of a chat with a model that nobody serves. */
  async function refusalOf(url: string, model: string): Promise<unknown> {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model, messages: [{ role: 'user', content: 'hi' }] }),
    });
    const { error } = (await response.json()) as { readonly error: { readonly message: string } };
    return [response.status, error.message];
  }

  it('has stator local say which one it serves and which there are, at the start and in the 404', async () => {
    const fake = await startFakeServer(['first', 'second']);
    const local = await fleet.local(['--engine=openai', `--engine-url=${fake.url}`]);
    expect(local.stderr()).toMatch(/has several models.*--model names another served=first others=second/);
    expect(local.stdout()).toMatch(/in front of your server, model first\n/);
    expect(await refusalOf(local.url, 'second')).toEqual([404, 'Model not found: `second`. Served here: first.']);
    await local.kill();
    fake.close();
  });

  it('has a frontend with a worker for each name all of them, at the start and in the 404', async () => {
    const fake = await startFakeServer(['first', 'second']);
    const workers = await Promise.all(
      ['first', 'second'].map((model) =>
        fleet.worker(['--engine=openai', `--engine-url=${fake.url}`, `--model=${model}`]),
      ),
    );
    const frontend = await fleet.frontend();
    await Promise.all(['first', 'second'].map((model) => fleet.untilWorkers(frontend, 1, model)));
    for (const model of ['first', 'second']) {
      expect(frontend.stderr()).toContain(`model is served model=${model} workers=1`);
    }
    const listed = 'Model not found: `third`. Served here: first, second.';
    expect(await refusalOf(frontend.url, 'third')).toEqual([404, listed]);
    await Promise.all([frontend, ...workers].map((each) => each.kill()));
    fake.close();
  });
});

describe('the documentation page of stator local', () => {
  it('has examples for every operation that answer as they stand', async () => {
    const local = await fleet.local(['--speedup-ratio=100', '--router-mode=kv', '--enable-anthropic-api']);
    const played = await playExamples(local.url);
    expect(played.filter(({ isDocumented }) => !isDocumented)).toEqual([]);
    const answered = played.filter(({ status }) => status < 300).map(({ id }) => id);
    expect(answered).toEqual(
      expect.arrayContaining([
        ...['createChatCompletion', 'createCompletion', 'createResponse', 'countInputTokens', 'createMessage'],
        ...['countTokens', 'listModels', 'getModel', 'getModelReadiness', 'getHealth', 'getLive', 'getMetrics'],
        ...['listBusyThresholds', 'setBusyThreshold', 'clearKvBlocks', 'explainPrompt'],
      ]),
    );
    await local.kill();
  });
});

describe('stator local whose workers take their time', () => {
  it('says what it waits for, and prints nothing to try before a worker is up', async () => {
    const local = await fleet.local(['--startup-time=4', '--num-workers=1', '--speedup-ratio=100']);
    expect(local.stderr()).toMatch(/stator: waiting for workers: 0 of 1 ready after \d+ s/);
    expect(textOf(await paste(printedUnder(local, /Try it:/)))).toMatch(/mock worker/);
    await local.kill();
  });
});
