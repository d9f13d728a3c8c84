import { X509Certificate } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, type Settings as Http2Settings } from 'node:http2';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SYSTEM } from '../../../../shared/clock/index.ts';
import { resolveConfig } from '../../../../shared/config/index.ts';
import { composeFrontend, type Frontend, serveFrontend } from '../../../../shared/frontends/index.ts';
import { captureLogger, silentLogger } from '../../../../shared/telemetry/log/logger.ts';
import { startWorkerProcess, type WorkerProcess } from '../../../../shared/worker/process/worker.ts';
import { freePort } from '../../../support/index.ts';
import { readTlsFixture } from '../../../support/tls-fixtures.ts';

// Each setting as an operator gives it, and what its users then see: a frontend of its own in this process, beside one mock worker.

const folder = mkdtempSync(join(tmpdir(), 'stator-settings-'));
const LOOPBACK = { DYN_TCP_RPC_HOST: '127.0.0.1', DYN_EVENT_PLANE_HOST: '127.0.0.1' };
const ENV = { DYN_DISCOVERY_BACKEND: 'file', DYN_FILE_KV: join(folder, 'kv'), ...LOOPBACK };
const MESSAGES = [{ role: 'user', content: 'hi' }];
let worker: WorkerProcess;

beforeAll(async () => {
  const flags = ['--engine=mocker', '--namespace=here', '--speedup-ratio=100', '--model-name=m'];
  worker = await startWorkerProcess(
    resolveConfig('worker', flags, ENV),
    SYSTEM,
    silentLogger,
    AbortSignal.timeout(20_000),
  );
});
afterAll(async () => {
  await worker.drain();
  rmSync(folder, { recursive: true, force: true });
});

interface Bed {
  readonly frontend: Frontend;
  readonly lines: readonly { readonly target: string; readonly fields: Readonly<Record<string, unknown>> }[];
  get(path: string, headers?: Readonly<Record<string, string>>): Promise<Response>;
  post(path: string, body: object): Promise<Response>;
}

type Given = readonly [flags: readonly string[], env?: Readonly<Record<string, string>>];

/** What `look` sees of a frontend with these settings, once it knows the worker or never will. */
async function look<T>([flags, env = {}]: Given, see: (bed: Bed) => Promise<T>): Promise<T> {
  const { settings } = resolveConfig('frontend', flags, { ...ENV, ...env });
  const { logger, lines } = captureLogger();
  const frontend = await composeFrontend(settings, { ...SYSTEM, logger });
  const ask = (path: string, init: RequestInit) =>
    frontend.app.fetch(new Request(`http://localhost${path}`, init), { peer: '127.0.0.1' });
  try {
    if (!flags.some((flag) => flag.startsWith('--namespace'))) {
      await frontend.models.until(
        (models) => models.some(({ workers }) => workers.length > 0),
        AbortSignal.timeout(10_000),
      );
    }
    return await see({
      frontend,
      lines,
      get: (path, headers = {}) => ask(path, { headers }),
      post: (path, body) =>
        ask(path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
    });
  } finally {
    await frontend.close();
  }
}

describe('a path of a frontend', () => {
  const body = { model: 'm', messages: MESSAGES, prompt: 'hi', input: 'hi', max_tokens: 1 };

  it.each([
    ['DYN_HTTP_SVC_CHAT_PATH', 'POST', '/v1/chat/completions'],
    ['DYN_HTTP_SVC_CMP_PATH', 'POST', '/v1/completions'],
    ['DYN_HTTP_SVC_EMB_PATH', 'POST', '/v1/embeddings'],
    ['DYN_HTTP_SVC_RESPONSES_PATH', 'POST', '/v1/responses'],
    ['DYN_HTTP_SVC_ANTHROPIC_PATH', 'POST', '/v1/messages'],
    ['DYN_HTTP_SVC_MODELS_PATH', 'GET', '/v1/models'],
    ['DYN_HTTP_SVC_HEALTH_PATH', 'GET', '/health'],
    ['DYN_HTTP_SVC_LIVE_PATH', 'GET', '/live'],
    ['DYN_HTTP_SVC_METRICS_PATH', 'GET', '/metrics'],
  ])('is where %s says, by both of its names: %s %s', async (variable, method, path) => {
    const codesAt = async (bed: Bed) => {
      const ask = (at: string) => (method === 'POST' ? bed.post(at, body) : bed.get(at));
      return Promise.all(['/own/place', path].map(async (at) => (await isRoute(await ask(at))) ?? at));
    };
    const anthropic = ['--enable-anthropic-api'];
    expect(await look([anthropic], codesAt)).toEqual(['/own/place', true]);
    for (const name of [variable, `${variable}_ENV`]) {
      expect(await look([anthropic, { [name]: '/own/place' }], codesAt)).toEqual([true, path]);
    }
  });
});

/** Undefined where nothing is served: the other routes know the model, even where they refuse what they were sent. */
async function isRoute(response: Response): Promise<true | undefined> {
  const text = await response.text();
  return response.status === 404 && !text.includes('model_not_found') && !text.includes('Model not found')
    ? undefined
    : true;
}

describe('a frontend', () => {
  it('takes bodies up to DYN_HTTP_BODY_LIMIT_MB, and names it', async () => {
    const chat = { model: 'm', messages: [{ role: 'user', content: 'a'.repeat(1.5 * 2 ** 20) }], max_tokens: 1 };
    const refused = await look([[], { DYN_HTTP_BODY_LIMIT_MB: '1' }], ({ post }) => post('/v1/chat/completions', chat));
    expect([refused.status, await refused.text()]).toEqual([413, expect.stringContaining('DYN_HTTP_BODY_LIMIT_MB')]);
    const taken = await look([[]], ({ post }) => post('/v1/chat/completions', chat));
    expect(await taken.text()).toContain('context_length_exceeded');
  });

  it('serves the Messages API, and models in its shape, with --enable-anthropic-api alone', async () => {
    const see = async ({ get, post }: Bed) => {
      const answer = await post('/v1/messages', { model: 'm', messages: MESSAGES, max_tokens: 1 });
      const models = await get('/v1/models', { 'anthropic-version': '2023-06-01' });
      return [answer.status, Object.keys((await models.json()) as object).includes('has_more')];
    };
    expect(await look([['--enable-anthropic-api']], see)).toEqual([200, true]);
    expect(await look([[]], see)).toEqual([404, false]);
  });

  it('shows its model by --model-name, and answers by it', async () => {
    const seen = await look([['--model-name=ours']], async ({ get, post }) => {
      const { data } = (await (await get('/v1/models')).json()) as {
        readonly data: readonly { readonly id: string }[];
      };
      const answers = await Promise.all(
        ['ours', 'm'].map((model) => post('/v1/chat/completions', { model, messages: MESSAGES, max_tokens: 1 })),
      );
      return [data.map(({ id }) => id), answers.map(({ status }) => status), await answers[0]?.json()];
    });
    expect(seen).toEqual([['ours'], [200, 404], expect.objectContaining({ model: 'ours' })]);
  });

  it.each([
    [['--namespace=here'], true],
    [['--namespace=elsewhere'], false],
    [['--namespace-prefix=he'], true],
    [['--namespace-prefix=no'], false],
    [['--namespace=elsewhere', '--namespace-prefix=he'], true],
  ])('serves models of the namespaces that its settings name: %j', async (flags, isServed) => {
    const names = await look([flags], async ({ frontend }) => {
      await frontend.refresh(0, AbortSignal.timeout(5000));
      return frontend.models.list().map(({ name }) => name);
    });
    expect(names).toEqual(isServed ? ['m'] : []);
  });

  it.each([
    ['--active-decode-blocks-threshold', '0.5', { active_decode_blocks_threshold: 0.5 }],
    ['--active-prefill-tokens-threshold', '5', { active_prefill_tokens_threshold: 5 }],
    ['--active-prefill-tokens-threshold-frac', '0.25', { active_prefill_tokens_threshold_frac: 0.25 }],
  ])('begins with the busy threshold %s only where --admission-control looks at it', async (flag, value, shown) => {
    const see = async ({ get }: Bed) => {
      const { thresholds } = (await (await get('/busy_threshold')).json()) as {
        readonly thresholds: readonly object[];
      };
      return thresholds[0];
    };
    const start = {
      active_decode_blocks_threshold: 1,
      active_prefill_tokens_threshold: 10_000_000,
      active_prefill_tokens_threshold_frac: 64,
    };
    const on = '--admission-control=token-capacity';
    expect(await look([[on]], see)).toEqual({ model: 'm', ...start });
    expect(await look([[on, `${flag}=${value}`]], see)).toEqual({ model: 'm', ...start, ...shown });
    const cleared = await look([[`${flag}=${value}`]], see);
    expect(Object.values(cleared ?? {}).filter((each) => typeof each === 'number')).toEqual([]);
  });

  it('shows the --migration-limit of its models', async () => {
    const see = async ({ get }: Bed) =>
      /dynamo_frontend_model_migration_limit\{[^}]*\} (\d+)/.exec(await (await get('/metrics')).text())?.[1];
    expect([await look([[]], see), await look([['--migration-limit=7']], see)]).toEqual(['3', '7']);
  });

  it('routes by blocks of --kv-cache-block-size, and shows it', async () => {
    const see = async ({ get, post }: Bed) => {
      const body = { model: 'm', messages: [{ role: 'user', content: 'a b c d e f g h i j '.repeat(20) }] };
      const explained = (await (await post('/router/explain', body)).json()) as Readonly<Record<string, number>>;
      const gauge = /dynamo_frontend_model_kv_cache_block_size\{[^}]*\} (\d+)/;
      const size = Number(gauge.exec(await (await get('/metrics')).text())?.[1]);
      return [size, explained.blocks === Math.floor((explained.prompt_tokens ?? 0) / size)];
    };
    expect(await look([['--router-mode=kv', '--kv-cache-block-size=8']], see)).toEqual([8, true]);
    expect(await look([['--router-mode=kv']], see)).toEqual([64, true]);
  });

  it('logs the time of each step of a request with --dyn-debug-perf alone', async () => {
    const see = async ({ post, lines }: Bed) => {
      await (await post('/v1/chat/completions', { model: 'm', messages: MESSAGES, max_tokens: 3 })).text();
      return lines.filter(({ target }) => target === 'perf').map(({ fields }) => fields);
    };
    const steps =
      'render_template tokenize preprocess route transport_roundtrip first_token detokenize parse encode total';
    const ms = Object.fromEntries(steps.split(' ').map((step) => [`${step}_ms`, expect.any(Number)]));
    const facts = { model: 'm', outcome: 'end', active_requests: 1, tokens: 3, request_id: expect.any(String) };
    expect(await look([['--dyn-debug-perf']], see)).toEqual([{ ...facts, ...ms }]);
    expect(await look([[]], see)).toEqual([]);
  });
});

describe('the server of a frontend', () => {
  const GRPC = { DYN_GRPC_INITIAL_STREAM_WINDOW_SIZE: '131072', DYN_GRPC_INITIAL_CONNECTION_WINDOW_SIZE: '262144' };
  const ports = ['--http-host=127.0.0.1', '--http-port=0', '--grpc-metrics-port=0'];

  async function served<T>(
    [flags, env = {}]: Given,
    see: (urls: { readonly http: string; readonly grpc: string }) => Promise<T>,
  ) {
    const { settings } = resolveConfig('frontend', [...ports, ...flags], { ...ENV, ...env });
    const frontend = await composeFrontend(settings, { ...SYSTEM, logger: silentLogger });
    const server = await serveFrontend(frontend, settings, silentLogger);
    try {
      return await see({ http: server.url, grpc: `http://${server.grpcAddress}` });
    } finally {
      await server.drain();
    }
  }

  /** What the server says of itself when a client connects. */
  function hello(url: string): Promise<{ readonly settings: Http2Settings; readonly window: number }> {
    return new Promise((resolve, reject) => {
      const client = connect(url);
      client.once('error', reject);
      client.once('remoteSettings', (settings) => {
        client.ping(() => {
          resolve({ settings, window: client.state.remoteWindowSize ?? 0 });
          client.destroy();
        });
      });
    });
  }

  it('listens on --http-host and --http-port, and speaks TLS with --tls-cert-path and --tls-key-path', async () => {
    const port = await freePort();
    const at = ['--http-host=127.0.0.1', `--http-port=${port}`];
    expect(await served([at], async ({ http }) => [http, (await fetch(`${http}/live`)).status])).toEqual([
      `http://127.0.0.1:${port}`,
      200,
    ]);
    const tls = fileURLToPath(new URL('../../../fixtures/tls/', import.meta.url));
    const certified = [...at, `--tls-cert-path=${tls}first.crt`, `--tls-key-path=${tls}first.key`];
    const names = await served([certified], async ({ http }) => [http, await certificateAt(port)]);
    expect(names).toEqual([`https://127.0.0.1:${port}`, true]);
  });

  /** Whether the server shows the first certificate of the fixtures. */
  function certificateAt(port: number): Promise<boolean> {
    const { raw } = new X509Certificate(readTlsFixture('first.crt'));
    return new Promise((resolve, reject) => {
      const socket = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false }, () => {
        resolve(socket.getPeerCertificate().raw.equals(raw));
        socket.destroy();
      });
      socket.once('error', reject);
    });
  }

  it('has no OpenAI routes with --kserve-grpc-server, and health and metrics on --grpc-metrics-port', async () => {
    const statuses = await served([['--kserve-grpc-server']], async ({ http, grpc }) => {
      await hello(grpc);
      const ask = async (path: string): Promise<number> => (await fetch(`${http}${path}`)).status;
      return Promise.all(['/health', '/metrics', '/v1/models', '/v1/chat/completions'].map(ask));
    });
    expect(statuses).toEqual([200, 200, 200, 404]);
    expect(resolveConfig('frontend', ['--kserve-grpc-server'], ENV).settings).toMatchObject({ grpcMetricsPort: 8788 });
  });

  it('announces the windows of DYN_GRPC_INITIAL_*_WINDOW_SIZE, 1 MiB each unless told', async () => {
    const windows = async ({ grpc }: { readonly grpc: string }) => {
      const { settings, window } = await hello(grpc);
      return [settings.initialWindowSize, window];
    };
    expect(await served([['--kserve-grpc-server']], windows)).toEqual([2 ** 20, 2 ** 20]);
    expect(await served([['--kserve-grpc-server'], GRPC], windows)).toEqual([131_072, 262_144]);
  });

  it('cuts what still runs after DYN_HTTP_GRACEFUL_SHUTDOWN_TIMEOUT_SECS', async () => {
    const { settings } = resolveConfig('frontend', ports, { ...ENV, DYN_HTTP_GRACEFUL_SHUTDOWN_TIMEOUT_SECS: '0' });
    const frontend = await composeFrontend(settings, { ...SYSTEM, logger: silentLogger });
    const server = await serveFrontend(frontend, settings, silentLogger);
    await frontend.models.until(
      (models) => models.some(({ workers }) => workers.length > 0),
      AbortSignal.timeout(10_000),
    );
    const body = JSON.stringify({
      model: 'm',
      messages: MESSAGES,
      max_tokens: 100_000,
      stream: true,
      ignore_eos: true,
    });
    const headers = { 'content-type': 'application/json' };
    const answer = await fetch(`${server.url}/v1/chat/completions`, { method: 'POST', headers, body });
    await server.drain();
    expect(await answer.text().catch(() => 'cut')).not.toContain('"finish_reason":"length"');
    expect(resolveConfig('frontend', ports, ENV).settings.httpGracefulShutdownTimeoutSecs).toBe(5);
  });
});
