import { once } from 'node:events';
import { createServer } from 'node:net';
import { endEngineCore } from './failure.mjs';

/** Listens on what vLLM listens on beside HTTP, once it has loaded: it ends as vLLM does when one is taken. */
export async function bindPorts({ value }, env) {
  const ranks = Number(value('--data-parallel-size') ?? 1);
  const events = JSON.parse(value('--kv-events-config') ?? '{}');
  const transfer = JSON.parse(value('--kv-transfer-config') ?? '{}');
  for (let rank = 0; rank < ranks; rank++) {
    if (events.enable_kv_cache_events) {
      if (/\*|::/.test(events.endpoint)) await bindZmq(events.endpoint, rank); // any other address it connects to
      if (events.replay_endpoint !== undefined) await bindZmq(events.replay_endpoint, rank);
    }
    if (JSON.stringify(transfer).includes('NixlConnector')) {
      const { VLLM_NIXL_SIDE_CHANNEL_HOST: host = 'localhost', VLLM_NIXL_SIDE_CHANNEL_PORT: port = '5600' } = env;
      await bindZmq(`tcp://${host}:${port}`, rank);
    }
  }
  await bindOwn(env.VLLM_PORT);
}

async function bindZmq(endpoint, rank) {
  const [, host, first] = /^tcp:\/\/(.+):(\d+)$/.exec(endpoint);
  const port = Number(first) + rank;
  const address = { '*': '0.0.0.0', '[::]': '::', localhost: '127.0.0.1' }[host] ?? host;
  try {
    await listen(port, address);
  } catch (thrown) {
    const words = thrown.code === 'EADDRINUSE' ? 'Address already in use' : thrown.code;
    endEngineCore(`zmq.error.ZMQError: ${words} (addr='tcp://${host}:${port}')`);
  }
}

/** The port at which its processes meet: the first free one from the variable up, looked for and then used later. */
async function bindOwn(first) {
  let port = Number(first ?? 0);
  for (;;) {
    try {
      (await listen(port, '0.0.0.0')).close();
      break;
    } catch {
      port++;
    }
  }
  await new Promise((resolve) => setTimeout(resolve, 20));
  if (port > 0)
    await listen(port, '0.0.0.0').catch(() =>
      endEngineCore(`torch.distributed.DistNetworkError: EADDRINUSE, port: ${port}`),
    );
}

async function listen(port, host) {
  const server = createServer();
  const listening = once(server, 'listening');
  server.listen({ port, host });
  await listening;
  return server;
}
