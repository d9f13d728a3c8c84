import { afterEach, describe, expect, it } from 'vitest';
import type { ModelRecord } from '../../../../shared/discovery/index.ts';
import { createMockEngine } from '../../../../shared/engines/mocker/mock-engine.ts';
import { workerError } from '../../../../shared/errors/index.ts';
import type { RequestPlane } from '../../../../shared/planes/index.ts';
import { silentLogger } from '../../../../shared/telemetry/log/logger.ts';
import { startControlServer } from '../../../../shared/worker/control/control-server.ts';
import type { SmallServer } from '../../../../shared/worker/control/small-server.ts';
import type { Worker } from '../../../../shared/worker/worker.ts';
import { range } from '../../engines/mocker/support.ts';
import { CallerSink, ScriptedEngine, workerBed } from '../worker-bed.ts';

const never = new AbortController().signal;

/** An engine with adapters and sleep, which notes what it was told. */
class ControlledEngine extends ScriptedEngine {
  readonly told: string[] = [];
  loadError: Error | undefined;
  unloadError: Error | undefined;
  exit: (reason: Error) => void = () => {};

  async loadLora(name: string, path: string): Promise<void> {
    if (this.loadError !== undefined) throw this.loadError;
    this.told.push(`load ${name} ${path}`);
  }

  async unloadLora(name: string): Promise<void> {
    if (this.unloadError !== undefined) throw this.unloadError;
    this.told.push(`unload ${name}`);
  }

  async sleep(level: number): Promise<void> {
    this.told.push(`sleep ${level}`);
  }

  async wake(tags: readonly string[]): Promise<void> {
    this.told.push(`wake ${tags.join()}`);
  }

  async clearKvBlocks(): Promise<void> {
    this.told.push('clear');
  }

  onExit(listener: (reason: Error) => void): void {
    this.exit = listener;
  }
}

async function bedWith(engine = new ControlledEngine(), settings = { servesAdapters: true }) {
  const bed = workerBed(engine);
  const worker = await bed.start({ settings });
  const cards = async (): Promise<readonly string[]> => {
    const records = await bed.discovery.list({ bucket: 'v1/mdc', prefix: '' });
    return records.map((record) => (record as ModelRecord).card.display_name).sort();
  };
  const endpoints = async (): Promise<readonly string[]> => {
    const records = await bed.discovery.list({ bucket: 'v1/instances', prefix: '' });
    return records.map((record) => ('endpoint' in record ? record.endpoint : ''));
  };
  return { ...bed, engine, worker, cards, endpoints };
}

const LOAD = { lora_name: 'ad', source: { uri: 'file:///adapters/my%20ad' } };

describe('adapters of a worker', () => {
  it('are models of their own while they are loaded', async () => {
    const { worker, engine, cards, discovery, endpoints } = await bedWith();
    expect(await endpoints()).toEqual(expect.arrayContaining(['load_lora', 'unload_lora', 'list_loras']));
    const answer = await worker.control.run('load_lora', LOAD, never);
    expect(answer).toMatchObject({ status: 'success', lora_name: 'ad' });
    expect(engine.told).toEqual(['load ad /adapters/my ad']);
    expect(await cards()).toEqual(['ad', 'm']);
    const [, record] = await discovery.list({ bucket: 'v1/mdc', prefix: '' });
    expect(record).toMatchObject({ model_suffix: 'ad', card: { lora: { name: 'ad' }, kv_cache_block_size: 4 } });
    const listed = await worker.control.run('list_loras', {}, never);
    expect(listed).toEqual({ status: 'success', loras: { ad: expect.any(Number) }, count: 1 });
    await worker.control.run('unload_lora', { lora_name: 'ad' }, never);
    expect(engine.told.at(-1)).toBe('unload ad');
    expect(await cards()).toEqual(['m']);
  });

  it('keep their number, and loading one again does nothing', async () => {
    const [first, second] = [await bedWith(), await bedWith()];
    const one = await first.worker.control.run('load_lora', LOAD, never);
    expect(await second.worker.control.run('load_lora', LOAD, never)).toEqual(one);
    expect(await first.worker.control.run('load_lora', LOAD, never)).toMatchObject({
      message: 'adapter ad is loaded already',
    });
    expect(first.engine.told).toHaveLength(1);
    expect((one as { lora_id: number }).lora_id).toBeGreaterThan(0);
  });

  it('come and go with the worker’s own records', async () => {
    const { worker, cards, engine, clock } = await bedWith();
    await worker.control.run('load_lora', LOAD, never);
    engine.healthError = new Error('dead');
    await clock.advance(10_000);
    expect(await cards()).toEqual([]);
    engine.healthError = undefined;
    await clock.advance(5000);
    expect(await cards()).toEqual(['ad', 'm']);
    const draining = worker.drain();
    await clock.advance(5000);
    await draining;
    expect(await cards()).toEqual([]);
  });

  it.each([
    ['load_lora', { lora_name: 'ad' }, 'source.uri is missing'],
    ['load_lora', { lora_name: '', source: { uri: 'file:///a' } }, 'lora_name must be a text of 1 to 256 characters'],
    [
      'load_lora',
      { lora_name: 'ad', source: { uri: 's3://bucket/x' } },
      'must be file:///folder, s3://bucket/prefix or hf://owner/name',
    ],
    ['load_lora', { lora_name: 'm', source: { uri: 'file:///a' } }, 'base model'],
    ['sleep', { level: 9 }, 'level must be 1, 2 or 3'],
    ['wake_up', { tags: 'x' }, 'tags must be a list of texts'],
    ['load_lora', 'text', 'the body must be a JSON object'],
  ])('refuse %s with %j', async (name, body, words) => {
    const { worker } = await bedWith();
    await expect(worker.control.run(name, body, never)).rejects.toMatchObject({ worker: 'InvalidArgument' });
    await expect(worker.control.run(name, body, never)).rejects.toThrow(words);
  });

  it('are not there when the engine cannot load one, or does not know it', async () => {
    const { worker, engine, cards } = await bedWith();
    engine.loadError = workerError('NotFound', 'No adapter found for /nowhere');
    await expect(worker.control.run('load_lora', LOAD, never)).rejects.toMatchObject({ worker: 'NotFound' });
    expect(await cards()).toEqual(['m']);
    await expect(worker.control.run('unload_lora', { lora_name: 'x' }, never)).rejects.toMatchObject({
      worker: 'NotFound',
    });
  });

  it('are published by the next load after one whose card could not be written', async () => {
    const { worker, engine, cards, discovery } = await bedWith();
    discovery.putError = new Error('the store is away');
    await expect(worker.control.run('load_lora', LOAD, never)).rejects.toThrow('the store is away');
    await expect(worker.control.run('load_lora', LOAD, never)).rejects.toThrow('the store is away');
    discovery.putError = undefined;
    expect(await worker.control.run('load_lora', LOAD, never)).toMatchObject({ status: 'success' });
    expect(await cards()).toEqual(['ad', 'm']);
    expect(engine.told).toHaveLength(1);
  });

  it('are published again after an engine did not unload them', async () => {
    const { worker, engine, cards } = await bedWith();
    await worker.control.run('load_lora', LOAD, never);
    engine.unloadError = workerError('Unavailable', 'busy');
    await expect(worker.control.run('unload_lora', { lora_name: 'ad' }, never)).rejects.toMatchObject({
      worker: 'Unavailable',
    });
    expect(await cards()).toEqual(['m']);
    expect(await worker.control.run('load_lora', LOAD, never)).toMatchObject({ status: 'success' });
    expect(await cards()).toEqual(['ad', 'm']);
  });

  it('are off unless they are switched on', async () => {
    const { worker, endpoints } = await bedWith(new ControlledEngine(), { servesAdapters: false });
    expect(await endpoints()).not.toContain('load_lora');
    await expect(worker.control.run('list_loras', {}, never)).rejects.toMatchObject({ worker: 'NotImplemented' });
  });

  it('of a mock engine are served like the base model', async () => {
    const bed = workerBed(new ScriptedEngine());
    const defer = (run: () => void): void => void bed.clock.after(0, run);
    const engine = createMockEngine({}, { clock: bed.clock, defer });
    const worker = await bed.start({ engine, settings: { servesAdapters: true } });
    await worker.control.run('load_lora', LOAD, never);
    const { sink } = bed.call(worker, range(10), { routing: { lora_name: 'ad' } });
    await bed.clock.advance(1000);
    expect(sink.end_).toBe(true);
  });

  it('are loaded over the request plane too', async () => {
    const { worker, options, cards } = await bedWith();
    const plane: RequestPlane = options.requestPlane;
    const sink = new CallerSink();
    const transport = { memory: `${worker.instanceId}/ns/backend/load_lora` };
    plane.call(transport, { id: 'c', headers: {}, body: LOAD }, sink);
    await new Promise(setImmediate);
    expect(sink).toMatchObject({ end_: true, outputs: [{ body: { status: 'success', lora_name: 'ad' } }] });
    expect(await cards()).toEqual(['ad', 'm']);
  });
});

describe('sleep of a worker', () => {
  it('begins when it has left discovery and its streams are over, and ends with its records back', async () => {
    const { worker, engine, cards, clock, call, health } = await bedWithCalls();
    const { sink } = call(worker, [1]);
    const sleeping = worker.control.run('sleep', {}, never);
    await clock.advance(1000);
    expect(await cards()).toEqual([]);
    expect(health.status).toBe('notready');
    expect(engine.told).toEqual([]);
    engine.requests[0]?.sink.end();
    await sleeping;
    expect(sink.end_).toBe(true);
    expect(engine.told).toEqual(['sleep 1']);
    await clock.advance(60_000); // healthy all the time, and still not registered
    expect(await cards()).toEqual([]);
    await worker.control.run('wake_up', { tags: ['weights'] }, never);
    expect(engine.told.at(-1)).toBe('wake weights');
    expect(await cards()).toEqual(['m']);
    expect(health.status).toBe('ready');
  });

  it('is given up when the engine will not', async () => {
    const { worker, engine, cards } = await bedWithCalls();
    engine.sleep = async () => {
      throw workerError('NotImplemented', 'the engine has no /sleep');
    };
    await expect(worker.control.run('sleep', { level: 2 }, never)).rejects.toMatchObject({ worker: 'NotImplemented' });
    expect(await cards()).toEqual(['m']);
  });
});

describe('an engine that ends by itself', () => {
  it('takes the worker out at once, and the process that runs the worker learns of it', async () => {
    const { worker, engine, cards, call, clock } = await bedWithCalls();
    const { sink } = call(worker, [1]);
    await clock.advance(1);
    engine.exit(new Error('vllm ended with 1'));
    expect((await worker.engineExit).message).toBe('vllm ended with 1');
    await clock.advance(1);
    expect(await cards()).toEqual([]);
    expect(sink.error).toMatchObject({ worker: 'EngineShutdown' });
  });

  it('counts as down at the first check when no process listens on its port', async () => {
    const { engine, cards, clock } = await bedWithCalls();
    engine.healthError = Object.assign(new Error('refused'), { code: 'ECONNREFUSED' });
    await clock.advance(2000);
    expect(await cards()).toEqual([]);
    engine.healthError = undefined;
    await clock.advance(3000);
    expect(await cards()).toEqual(['m']);
  });
});

describe('the control server', () => {
  const servers: SmallServer[] = [];

  afterEach(async () => {
    for (const server of servers.splice(0)) await server.close();
  });

  async function serve(worker: Worker | undefined, secret?: string): Promise<string> {
    const server = await startControlServer({
      control: () => worker?.control,
      admission: { secret, isOpen: false },
      logger: silentLogger,
      port: 0,
      host: '127.0.0.1',
    });
    servers.push(server);
    return `http://127.0.0.1:${server.port}`;
  }

  const ask = async (
    url: string,
    method: string,
    body?: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<readonly [number, unknown]> => {
    const text = body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) };
    const response = await fetch(url, { method, headers, ...text });
    return [response.status, await response.json()];
  };

  it('has the published routes', async () => {
    const bed = await bedWith();
    const url = await serve(bed.worker);
    expect(await ask(`${url}/v1/loras`, 'POST', LOAD)).toMatchObject([200, { status: 'success', lora_name: 'ad' }]);
    expect(await ask(`${url}/v1/loras`, 'GET')).toMatchObject([200, { count: 1 }]);
    expect(await ask(`${url}/v1/loras/ad`, 'DELETE')).toMatchObject([200, { status: 'success' }]);
    expect(await ask(`${url}/engine/control/sleep`, 'POST', { level: 2 })).toMatchObject([200, { status: 'success' }]);
    expect(await ask(`${url}/engine/wake_up`, 'POST')).toMatchObject([200, { status: 'success' }]);
    expect(await ask(`${url}/engine/control/clear_kv_blocks`, 'POST', {})).toMatchObject([200, { status: 'success' }]);
    expect(bed.engine.told).toEqual(['load ad /adapters/my ad', 'unload ad', 'sleep 2', 'wake ', 'clear']);
  });

  it('says what is wrong', async () => {
    const bed = await bedWith();
    const url = await serve(bed.worker);
    expect(await ask(`${url}/v1/loras`, 'POST', '{')).toMatchObject([400, { status: 'error' }]);
    expect(await ask(`${url}/v1/loras`, 'POST', {})).toMatchObject([400, { message: /lora_name must be/ }]);
    expect(await ask(`${url}/v1/loras/none`, 'DELETE')).toMatchObject([
      404,
      { message: 'no adapter `none` is loaded' },
    ]);
    expect(await ask(`${url}/engine/control/dance`, 'POST')).toMatchObject([404, { status: 'error' }]);
    expect((await fetch(`${url}/engine/control/sleep`)).status).toBe(404);
    const early = await serve(undefined);
    expect(await ask(`${early}/v1/loras`, 'GET')).toMatchObject([503, { status: 'error' }]);
  });

  it.each([
    ['[]', 'a list'],
    ['[{"lora_name":"ad"}]', 'a list'],
    ['"text"', 'a string'],
    ['5', 'a number'],
    ['true', 'a boolean'],
    ['null', 'null'],
  ])('refuses a body that is JSON and no object: %s', async (body, kind) => {
    const bed = await bedWith();
    const url = await serve(bed.worker);
    const refused = [400, { status: 'error', message: `the body must be a JSON object, not ${kind}` }];
    expect(await ask(`${url}/v1/loras`, 'POST', body)).toEqual(refused);
    expect(await ask(`${url}/v1/loras/ad`, 'DELETE', body)).toEqual(refused);
    for (const name of ['sleep', 'wake_up', 'clear_kv_blocks']) {
      expect(await ask(`${url}/engine/control/${name}`, 'POST', body)).toEqual(refused);
    }
    expect(bed.engine.told).toEqual([]);
  });

  it('refuses what it cannot read, with the client at fault', async () => {
    const bed = await bedWith();
    const url = await serve(bed.worker);
    const encoding = { status: 'error', message: 'the name in the path is not valid percent-encoding' };
    expect(await ask(`${url}/v1/loras/%E0%A4%A`, 'DELETE')).toEqual([400, encoding]);
    expect(await ask(`${url}/v1/loras/${'x'.repeat(257)}`, 'DELETE')).toMatchObject([400, { message: /256/ }]);
    expect(await ask(`${url}/v1/loras`, 'POST', '€'.repeat(30_000))).toMatchObject([413, { message: /65536 bytes/ }]);
    expect(bed.engine.told).toEqual([]);
  });

  it('does nothing for a web page, whose browser is on this machine', async () => {
    const bed = await bedWith();
    const url = await serve(bed.worker);
    const clear = `${url}/engine/control/clear_kv_blocks`;
    const page = { origin: 'https://evil.example', 'content-type': 'text/plain' };
    expect(await ask(clear, 'POST', '{}', page)).toMatchObject([403, { message: /Origin/ }]);
    const forwarded = { 'x-forwarded-for': '127.0.0.1' };
    expect(await ask(clear, 'POST', '{}', forwarded)).toMatchObject([403, { message: /STATOR_PLANE_TOKEN/ }]);
    expect(bed.engine.told).toEqual([]);
  });

  it('asks everybody for the token where there is one', async () => {
    const bed = await bedWith();
    const token = 't'.repeat(32);
    const url = await serve(bed.worker, token);
    const clear = `${url}/engine/control/clear_kv_blocks`;
    expect(await ask(clear, 'POST', {})).toMatchObject([401, { message: /Bearer/ }]);
    expect(await ask(clear, 'POST', {}, { authorization: `Bearer ${token}x` })).toMatchObject([401, {}]);
    expect(bed.engine.told).toEqual([]);
    expect(await ask(clear, 'POST', {}, { authorization: `Bearer ${token}` })).toMatchObject([200, {}]);
    expect(bed.engine.told).toEqual(['clear']);
  });
});

async function bedWithCalls() {
  const engine = new ControlledEngine();
  const bed = workerBed(engine);
  const worker = await bed.start();
  const cards = async (): Promise<readonly string[]> => {
    const records = await bed.discovery.list({ bucket: 'v1/mdc', prefix: '' });
    return records.map((record) => (record as ModelRecord).card.display_name);
  };
  return { ...bed, engine, worker, cards };
}
