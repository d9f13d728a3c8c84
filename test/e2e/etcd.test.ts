import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type EtcdCluster, freePort, hasEtcd, postJson, startEtcd, useFleet } from '../support/index.ts';

const fleet = useFleet();
const REQUEST = { model: 'stator-mini', messages: [{ role: 'user', content: 'hello' }], max_tokens: 4 };

describe.runIf(hasEtcd())('a fleet that meets in etcd', { timeout: 120_000 }, () => {
  let cluster: EtcdCluster;
  beforeAll(async () => {
    cluster = await startEtcd({ members: 3 });
  });
  afterAll(() => cluster.stop());

  it('serves through its workers, also after the member in use was killed, and forgets a worker that was', async () => {
    const env = {
      DYN_DISCOVERY_BACKEND: 'etcd',
      ETCD_ENDPOINTS: cluster.urls.join(),
      ETCD_LEASE_TTL: '3',
      DYN_EVENT_PLANE: 'zmq',
      DYN_SYSTEM_PORT: '0',
    };
    const frontend = await fleet.frontend([], env);
    const workers = [await fleet.worker([], env), await fleet.worker([], env)];
    await fleet.untilWorkers(frontend, 2);
    await cluster.members[0]?.kill();
    expect((await postJson(`${frontend.url}/v1/chat/completions`, REQUEST)).status).toBe(200);
    await workers[0]?.kill();
    await fleet.untilWorkers(frontend, 1);
    expect((await postJson(`${frontend.url}/v1/chat/completions`, REQUEST)).status).toBe(200);
  });
});

describe('a frontend without the etcd that it is to use', () => {
  it('ends with one line that names the endpoints and the setting', async () => {
    const port = await freePort();
    const env = { DYN_DISCOVERY_BACKEND: 'etcd', ETCD_ENDPOINTS: `http://127.0.0.1:${port}` };
    const frontend = fleet.spawn(['frontend', '--http-port', '0'], env);
    expect(await frontend.exited).not.toBe(0);
    expect(frontend.stderr()).toMatch(new RegExp(`cannot .* etcd at http://127.0.0.1:${port}: .*Check ETCD_ENDPOINTS`));
  });
});
