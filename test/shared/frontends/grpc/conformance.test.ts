import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { playCase, readCases } from '../../../support/kserve/conformance.ts';
import { KserveClient } from '../../../support/kserve/kserve-client.ts';
import { type ScriptedKserve, startScriptedKserve } from '../../../support/kserve/scripted-server.ts';

/** What Dynamo's own gRPC frontend answered, replayed. */
describe('KServe', () => {
  let models: ScriptedKserve;
  let client: KserveClient;

  beforeAll(async () => {
    models = await startScriptedKserve();
    client = new KserveClient(`127.0.0.1:${models.server.port}`);
  });

  afterAll(async () => {
    client.close();
    await models.close();
  });

  it.each(readCases('test/fixtures/kserve').map((each) => [each.id, each] as const))(
    '%s is answered as recorded or as decided',
    async (_id, each) => {
      expect(await playCase(each, client, models)).toEqual([]);
    },
  );
});
