import { once } from 'node:events';
import { createServer, type Server } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { resolveConfig } from '../../../../shared/config/index.ts';
import { HeldPorts, type PortWish } from '../../../../shared/engines/server/held-ports.ts';
import { launchFactsOf } from '../../../../shared/engines/server/launch-facts.ts';
import { takePorts } from '../../../../shared/engines/server/launch-plan.ts';
import { sglangLaunch } from '../../../../shared/engines/sglang/launch.ts';
import { vllmLaunch } from '../../../../shared/engines/vllm/launch.ts';
import { vllmPorts } from '../../../../shared/engines/vllm/ports.ts';
import { freePort, spawnTypeScript, waitUntil } from '../../../support/index.ts';

const FIVE = { setting: 'RANGE', ports: { first: 31_901, last: 31_905 } };
const NAMED = { VLLM_EC_SIDE_CHANNEL_PORT: '5601' };
const HOLD = new URL('hold-ports.ts', import.meta.url);

describe('ports for an engine', () => {
  const held: HeldPorts[] = [];
  const servers: Server[] = [];

  afterEach(() => {
    for (const each of held.splice(0)) each.release();
    for (const server of servers.splice(0)) server.close();
  });

  function hold(): HeldPorts {
    const ports = new HeldPorts();
    held.push(ports);
    return ports;
  }

  async function listen(port: number, host = '127.0.0.1'): Promise<void> {
    const server = createServer().listen(port, host);
    servers.push(server);
    await once(server, 'listening');
  }

  it('come from a range, and are different for every engine', async () => {
    const [one, other] = [hold(), hold()];
    const taken = await Promise.all([one.take(FIVE), other.take(FIVE), one.take(FIVE), other.take(FIVE)]);
    expect(new Set(taken).size).toBe(4);
    for (const port of taken) expect(port).toBeGreaterThanOrEqual(31_901);
    await one.take(FIVE);
    await expect(one.take(FIVE)).rejects.toThrow(
      'RANGE: no port of 31901-31905 free (port 31905 is reserved for another engine of this machine); name other ports',
    );
    other.release();
    await one.take(FIVE);
  });

  it('exclude ports that another process listens on', async () => {
    await listen(31_901);
    await listen(31_902, '0.0.0.0');
    expect(await hold().take(FIVE)).toBe(31_903);
  });

  it('lie beside each other where several belong together', async () => {
    await listen(31_902);
    const ports = hold();
    expect(await ports.take({ ...FIVE, offsets: [0, 1] })).toBe(31_903);
    await expect(ports.take({ ...FIVE, offsets: [0, 1] })).rejects.toThrow('no 2 adjacent ports of 31901-31905');
    expect(await ports.take(FIVE)).toBe(31_901); // what was tried in between is let go
  });

  it('are refused by the name of their setting when a named port is taken', async () => {
    const port = await freePort();
    await listen(port);
    const named: PortWish = { setting: 'DYN_VLLM_KV_EVENT_PORT', ports: { first: port, last: port } };
    await expect(hold().take(named)).rejects.toThrow(`DYN_VLLM_KV_EVENT_PORT: port ${port} is taken; name a free port`);
  });

  it('stay with their process for as long as it lives, and not longer, however it ends', async () => {
    const holder = await spawnTypeScript(HOLD, ['31901', '31905']);
    await holder.waitForOutput(/held 31901/);
    expect(await hold().take(FIVE)).toBe(31_902);
    await holder.kill();
    const ports = hold();
    await waitUntil(async () => (await ports.take(FIVE).catch(() => 0)) === 31_901);
  });
});

describe('what the engines listen on', () => {
  const settings = (engine: string, flags: readonly string[] = [], env: Record<string, string> = {}) =>
    resolveConfig('worker', [`--engine=${engine}`, '--model=m', '--engine-ports=31910-31999', ...flags], env);
  const vllm = (flags: readonly string[] = [], env: Record<string, string> = {}) =>
    vllmLaunch(settings('vllm', flags, env));
  const sglang = (flags: readonly string[] = [], env: Record<string, string> = {}) =>
    sglangLaunch(settings('sglang', flags, env));

  it.each([
    ['vLLM', vllm],
    ['SGLang', sglang],
  ])('%s: its own, each of another number, also those of ranks', async (_, launch) => {
    const [one, other] = [new HeldPorts(), new HeldPorts()];
    const flags = ['--data-parallel-size=3', '--kv-transfer-config={"kv_connector":"NixlConnector"}'];
    const env = { VLLM_NIXL_SIDE_CHANNEL_HOST: '127.0.0.1' };
    try {
      const plan = await launch(flags, env);
      const [mine, theirs] = await Promise.all([takePorts(plan, one), takePorts(plan, other)]);
      const all = [mine, theirs].flatMap(({ http, events, replay, sideChannel }) => [
        http,
        ...[events, replay, ...(sideChannel === undefined ? [] : [sideChannel])].flatMap((port) => [
          port,
          port + 1,
          port + 2,
        ]),
      ]);
      expect(new Set(all).size).toBe(all.length);
    } finally {
      one.release();
      other.release();
    }
  });

  it('is passed to vLLM by arguments and variables, and the user’s own value wins', async () => {
    const ports = { http: 1, events: 2, replay: 3, sideChannel: 4, own: 5 };
    expect((await vllm()).command(ports).env).toMatchObject({
      VLLM_NIXL_SIDE_CHANNEL_PORT: '4',
      VLLM_PORT: '5',
    });
    const named = await vllm(
      [
        '--kv-transfer-config={"kv_connector":"NixlConnector"}',
        '--data-parallel-size=2',
        '--kv-events-config={"enable_kv_cache_events":true,"endpoint":"tcp://*:5557","replay_endpoint":"tcp://10.0.0.1:5567"}',
        '--',
        '--port=9000',
      ],
      { VLLM_NIXL_SIDE_CHANNEL_PORT: '5700', VLLM_NIXL_SIDE_CHANNEL_HOST: '10.0.0.2' },
    );
    expect(named.ports).toEqual({
      http: { setting: '--port', ports: { first: 9000, last: 9000 } },
      sideChannel: {
        setting: 'VLLM_NIXL_SIDE_CHANNEL_PORT',
        ports: { first: 5700, last: 5700 },
        offsets: [0, 1],
        host: '10.0.0.2',
      },
    });
    expect(named.givenPorts).toEqual([
      {
        setting: '--kv-events-config (endpoint)',
        ports: { first: 5557, last: 5557 },
        offsets: [0, 1],
        host: '0.0.0.0',
      },
      {
        setting: '--kv-events-config (replay_endpoint)',
        ports: { first: 5567, last: 5567 },
        offsets: [0, 1],
        host: '10.0.0.1',
      },
    ]);
    expect((await vllm([], { DYN_VLLM_KV_EVENT_PORT: '21080-21090' })).ports.events).toMatchObject({
      setting: 'DYN_VLLM_KV_EVENT_PORT',
      ports: { first: 21_080, last: 21_090 },
    });
  });

  it('is one for what an encoder of vLLM has made, where others fetch it', async () => {
    const encoder = (role: string) => {
      const { settings: given } = settings('vllm');
      const args = ['serve', 'm', '--ec-transfer-config', `{"ec_connector":"ECCPUConnector","ec_role":"${role}"}`];
      return vllmPorts(given, launchFactsOf(args, 'vllm'), args, {
        VLLM_PORT: '1',
        ...(role === 'ec_both' ? NAMED : {}),
      }).ports;
    };
    const range = { setting: 'STATOR_ENGINE_PORTS', ports: { first: 31_910, last: 31_999 } };
    expect(encoder('ec_producer')).toEqual({ http: range, encoder: range });
    expect(encoder('ec_consumer')).toEqual({ http: range });
    const named = { setting: 'VLLM_EC_SIDE_CHANNEL_PORT', ports: { first: 5601, last: 5601 } };
    expect(encoder('ec_both')).toEqual({ http: range, encoder: named });
    const { env } = (await vllm()).command({ http: 1, events: 2, replay: 3, encoder: 4 });
    expect(env).toMatchObject({ VLLM_EC_SIDE_CHANNEL_PORT: '4' });
  });

  it('is passed to SGLang by arguments, and the user’s own value wins', async () => {
    const ports = { http: 1, events: 2, replay: 3, own: 5, bootstrap: 6 };
    const { args } = (await sglang(['--disaggregation-mode=prefill'])).command(ports);
    expect(args.join(' ')).toContain('--nccl-port 5 --disaggregation-bootstrap-port 6 --disaggregation-mode prefill');
    const named = await sglang([
      '--disaggregation-mode=prefill',
      '--',
      '--nccl-port',
      '7000',
      '--disaggregation_bootstrap_port=7001',
    ]);
    expect(Object.keys(named.ports)).toEqual(['http', 'events', 'replay']);
    expect(named.givenPorts).toEqual([
      { setting: '--nccl-port', ports: { first: 7000, last: 7000 } },
      { setting: '--disaggregation-bootstrap-port', ports: { first: 7001, last: 7001 } },
    ]);
    const together = await sglang(['--data-parallel-size=2', '--', '--enable-dp-attention']);
    expect(together.ports.http.offsets).toEqual([0, 233, 234, 235, 236, 237, 238, 239, 240]);
    expect(together.ports.own).toBeUndefined();
  });
});
