import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { builtinModelPath } from '../../shared/artifacts/index.ts';
import { postJson, readChat, runStator, type StatorProcess, useFleet } from '../support/index.ts';

const MODEL = 'stator-mini';
const MESSAGES = [{ role: 'user', content: 'Hello' }];
const GOOD = { model: MODEL, messages: MESSAGES, max_tokens: 4 };
/** A command that finds its engine or table away tries again for 10 s before it says so. */
const COMMAND_MS_MAX = 30_000;
/** The body limit of the server under test. */
const LIMIT_MB = 1;

const fleet = useFleet();
let local: StatorProcess;
let chatUrl = '';

beforeAll(async () => {
  local = await fleet.local(['--num-workers=1', '--speedup-ratio=10'], { DYN_HTTP_BODY_LIMIT_MB: String(LIMIT_MB) });
  chatUrl = `${local.url}/v1/chat/completions`;
});

interface Refusal {
  readonly status: number;
  readonly type?: string;
  readonly code: string;
  readonly param?: string | null;
  /** In the message. */
  readonly says?: string;
}

/** What must hold of every refusal: status, the whole envelope, and a server that serves on. */
async function expectRefusal(response: Response, refusal: Refusal): Promise<void> {
  const { status, type = 'invalid_request_error', code, says = '' } = refusal;
  expect(response.status).toBe(status);
  expect(response.headers.get('content-type')).toMatch(/^application\/json/);
  const body = (await response.json()) as { error: Record<string, unknown> };
  expect(Object.keys(body)).toEqual(['error']);
  expect(Object.keys(body.error).sort()).toEqual(['code', 'message', 'param', 'type']);
  expect(body.error).toMatchObject({ type, code, message: expect.stringContaining(says) });
  if (refusal.param !== undefined) expect(body.error.param).toBe(refusal.param);
  expect(await readChat(local.url, GOOD)).toMatchObject({ finishReason: 'length', isDone: true });
}

/** What a slow start says meanwhile. */
const WAITING = /^stator: (?:waiting|loading)|^\S+Z +INFO [\w.-]+: (?:waiting|loading)/;

describe('a request that cannot be served', () => {
  it.for<[string, unknown, Refusal]>([
    ['malformed JSON', '{"model": "stator-mini", "messages": [', { status: 400, code: 'invalid_json' }],
    ['JSON that is no object', '[1, 2]', { status: 400, code: 'invalid_value' }],
    ['an empty body', '', { status: 400, code: 'invalid_json' }],
    ['a wrong type', { ...GOOD, temperature: 'hot' }, { status: 400, code: 'invalid_value', param: 'temperature' }],
    ['a wrong type inside', { ...GOOD, messages: 'Hello' }, { status: 400, code: 'invalid_value', param: 'messages' }],
    ['a value out of range', { ...GOOD, temperature: 3 }, { status: 400, code: 'invalid_value', param: 'temperature' }],
    ['no messages', { model: MODEL, messages: [] }, { status: 400, code: 'invalid_value', param: 'messages' }],
    ['a missing field', { model: MODEL }, { status: 400, code: 'missing_required_parameter', says: 'messages' }],
    ['an unknown key', { ...GOOD, mesages: [] }, { status: 400, code: 'unknown_parameter', says: 'mesages' }],
    ['an unknown model', { ...GOOD, model: 'gpt-17' }, { status: 404, code: 'model_not_found', says: 'not found' }],
  ])('for %s is answered with status, type, code and a message', async ([, body, refusal]) => {
    await expectRefusal(await postJson(chatUrl, body), refusal);
  });

  it.for([false, true])('for a prompt over the context names both numbers (stream: %s)', async (stream) => {
    const messages = [{ role: 'user', content: 'word '.repeat(140_000) }];
    const response = await postJson(chatUrl, { ...GOOD, messages, stream });
    const text = await response.clone().text();
    await expectRefusal(response, { status: 400, code: 'context_length_exceeded', says: '131072' });
    const promptTokens = text.match(/\d{4,}/g)?.map(Number) ?? [];
    expect(Math.max(...promptTokens)).toBeGreaterThan(131_072);
  });

  it('for a body over the limit names the limit', async () => {
    const messages = [{ role: 'user', content: 'x'.repeat(LIMIT_MB * 1024 * 1024) }];
    await expectRefusal(await postJson(chatUrl, { ...GOOD, messages }), {
      status: 413,
      code: 'request_too_large',
      says: 'DYN_HTTP_BODY_LIMIT_MB',
    });
  });

  it('for a content type other than JSON is 415', async () => {
    const response = await postJson(chatUrl, GOOD, { headers: { 'content-type': 'text/plain' } });
    await expectRefusal(response, { status: 415, code: 'unsupported_media_type' });
  });

  it('for an unknown route is 404, for a wrong method 405 with the right one', async () => {
    await expectRefusal(await postJson(`${local.url}/v1/chat/completion`, GOOD), { status: 404, code: 'not_found' });
    const wrongMethod = await fetch(chatUrl);
    expect(wrongMethod.headers.get('allow')).toBe('POST');
    await expectRefusal(wrongMethod, { status: 405, code: 'method_not_allowed' });
  });

  it('that is no HTTP at all is answered and its connection closed', async () => {
    const socket = connect(Number(new URL(local.url).port), '127.0.0.1');
    let text = '';
    socket.setEncoding('utf8').on('data', (chunk) => {
      text += chunk;
    });
    socket.write('\x16\x03\x01 hello\r\n\r\n');
    await new Promise((resolve) => socket.once('close', resolve));
    expect(text).toMatch(/^HTTP\/1\.1 400 /);
    expect(JSON.parse(text.slice(text.indexOf('\r\n\r\n')))).toMatchObject({
      error: { type: 'invalid_request_error' },
    });
  });

  it('leaves no error in the log, because the mistake is the client’s', () => {
    expect(local.stderr()).not.toMatch(/ (WARN|ERROR) /);
  });
});

describe('a command that cannot start', () => {
  const folder = mkdtempSync(join(tmpdir(), 'stator-bad-'));
  const broken = join(folder, 'broken-model');
  const empty = join(folder, 'empty');
  cpSync(builtinModelPath(), broken, { recursive: true });
  writeFileSync(join(broken, 'tokenizer.json'), '{"version": "1.0", "model": {');
  cpSync(builtinModelPath(), empty, { recursive: true, filter: (path) => path === builtinModelPath() });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const kv = { DYN_DISCOVERY_BACKEND: 'file', DYN_FILE_KV: join(folder, 'kv') };
  const nobody = 'http://127.0.0.1:9'; // the discard port, where nothing listens
  const awayTable = {
    DYN_DISCOVERY_BACKEND: 'dynamodb',
    STATOR_DISCOVERY_TABLE: 'discovery',
    STATOR_DYNAMODB_ENDPOINT: nobody,
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: 'local',
    AWS_SECRET_ACCESS_KEY: 'local',
  };
  const taken = () => `--http-port=${new URL(local.url).port}`;

  interface Failure {
    readonly args: readonly (string | (() => string))[];
    readonly env?: Readonly<Record<string, string>>;
    readonly code: 1 | 2;
    readonly says: RegExp;
  }

  it.concurrent.for<[string, Failure]>([
    ['an unknown flag', { args: ['local', '--htp-port=1'], code: 2, says: /--htp-port; did you mean --http-port\?/ }],
    ['an unknown command', { args: ['frontent'], code: 2, says: /"frontent"; did you mean stator frontend\?/ }],
    [
      'a flag of another command',
      { args: ['worker', '--engine=mocker', '--http-port=1'], code: 2, says: /--http-port/ },
    ],
    ['a bad value', { args: ['frontend', '--http-port=many'], code: 2, says: /--http-port "many".*0-65535/ }],
    [
      'a bad variable',
      { args: ['frontend'], env: { DYN_HTTP_PORT: 'many' }, code: 2, says: /DYN_HTTP_PORT "many".*0-65535/ },
    ],
    ['a missing engine', { args: ['worker'], code: 2, says: /--engine is required: mocker, / }],
    ['an engine without its URL', { args: ['local', '--engine=openai'], code: 2, says: /needs --engine-url/ }],
    [
      'a discovery that its workers cannot share',
      {
        args: ['local', '--discovery-backend=mem'],
        code: 2,
        says: /--discovery-backend must be file for stator local/,
      },
    ],
    [
      'a missing model folder (local)',
      {
        args: ['local', '--http-port=0', '--model-path=/no/such'],
        code: 2,
        says: /--model-path "\/no\/such": no such/,
      },
    ],
    [
      'a missing model folder (worker)',
      {
        args: ['worker', '--engine=mocker', '--model-path=/no/such'],
        code: 2,
        says: /--model-path "\/no\/such": no such/,
      },
    ],
    [
      'a broken tokenizer.json (local)',
      {
        args: ['local', '--http-port=0', `--model-path=${broken}`],
        code: 1,
        says: /broken-model\/tokenizer\.json.*JSON/,
      },
    ],
    [
      'a broken tokenizer.json (worker)',
      {
        args: ['worker', '--engine=mocker', `--model-path=${broken}`],
        env: kv,
        code: 1,
        says: /broken-model\/tokenizer\.json.*JSON/,
      },
    ],
    ['a port in use (local)', { args: ['local', taken], code: 1, says: /in use.*--http-port/ }],
    [
      'a port in use (frontend)',
      { args: ['frontend', '--http-host=127.0.0.1', taken], env: kv, code: 1, says: /in use.*--http-port/ },
    ],
    [
      'a service for anybody (router)',
      {
        args: ['router', '--service=indexer', '--service-host=0.0.0.0', '--service-port=0'],
        env: kv,
        code: 1,
        says: /the HTTP service would listen on 0\.0\.0\.0.*STATOR_PLANE_TOKEN.*STATOR_PLANE_OPEN=on/,
      },
    ],
    [
      'controls for anybody (worker)',
      {
        args: ['worker', '--engine=mocker'],
        env: { ...kv, STATOR_CONTROL_HOST: '0.0.0.0', STATOR_CONTROL_PORT: '0' },
        code: 1,
        says: /the control server would listen on 0\.0\.0\.0.*STATOR_PLANE_TOKEN.*STATOR_PLANE_OPEN=on/,
      },
    ],
    [
      'controls that would be shown the token in clear (worker)',
      {
        args: ['worker', '--engine=mocker'],
        env: { ...kv, STATOR_CONTROL_HOST: '0.0.0.0', STATOR_CONTROL_PORT: '0', STATOR_PLANE_TOKEN: 't'.repeat(32) },
        code: 1,
        says: /the control server would be shown STATOR_PLANE_TOKEN in clear at 0\.0\.0\.0.*STATOR_CONTROL_HOST=127\.0\.0\.1/,
      },
    ],
    [
      'an engine that is not there (local)',
      {
        args: ['local', '--http-port=0', '--engine=openai', `--engine-url=${nobody}`],
        code: 1,
        says: /no engine at http:\/\/127\.0\.0\.1:9.*ECONNREFUSED.*check the URL/,
      },
    ],
    [
      'an engine that is not there (worker)',
      {
        args: ['worker', '--engine=openai', `--engine-url=${nobody}`],
        env: kv,
        code: 1,
        says: /no engine at http:\/\/127\.0\.0\.1:9.*ECONNREFUSED.*check the URL/,
      },
    ],
    [
      'a discovery table that is away (frontend)',
      { args: ['frontend', '--http-port=0'], env: awayTable, code: 1, says: /DynamoDB at .*STATOR_DYNAMODB_ENDPOINT/ },
    ],
    [
      'a discovery table that is away (worker)',
      {
        args: ['worker', '--engine=mocker', '--event-plane=zmq'],
        env: { ...awayTable, DYN_EVENT_PLANE_HOST: '127.0.0.1', DYN_TCP_RPC_HOST: '127.0.0.1', DYN_SYSTEM_PORT: '-1' },
        code: 1,
        says: /DynamoDB at .*STATOR_DYNAMODB_ENDPOINT/,
      },
    ],
  ])(
    'for %s says so in one line and exits non-zero',
    { timeout: COMMAND_MS_MAX },
    async ([, { args, env, code, says }], { expect }) => {
      const argv = args.map((argument) => (typeof argument === 'string' ? argument : argument()));
      const result = await runStator(argv, env);
      expect(result).toMatchObject({ code, stdout: '' });
      const told = result.stderr.split('\n').filter((line) => !WAITING.test(line));
      expect(told).toEqual([expect.stringMatching(/^stator: /), '']);
      expect(told[0]).toMatch(says);
    },
  );

  it.each(['local', 'frontend'])('for an empty model folder names the file that is missing: %s', async (command) => {
    const { code, stderr } = await runStator([command, '--http-port=0', `--model-path=${empty}`]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/^stator: .*tokenizer\.json[^\n]*\n$/);
  });

  it('for a status port in use says which variable to set', async () => {
    const port = new URL(local.url).port;
    const env = { ...kv, DYN_SYSTEM_PORT: port, DYN_SYSTEM_HOST: '127.0.0.1' };
    const { code, stderr } = await runStator(['worker', '--engine=mocker'], env);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^stator: .*DYN_SYSTEM_PORT\n$/);
  });
});
