// Plays every case of a folder of .json files in the format of test/fixtures/kserve against the scripted models of its
// README.
//
// `npm run conformance:kserve -- DIR` ends with `N passed, N failed`.
//
// `npm run conformance:kserve -- --serve PORT` only serves those models, for clients from elsewhere.
import { once } from 'node:events';
import { playCase, readCases } from './kserve/conformance.ts';
import { KserveClient } from './kserve/kserve-client.ts';
import { startScriptedKserve } from './kserve/scripted-server.ts';

const [first, second] = process.argv.slice(2);
if (first === undefined) {
  console.error('usage: npm run conformance:kserve -- DIR | --serve PORT');
  process.exit(2);
}
if (first === '--serve') await serve(Number(second ?? 8001));
else await play(first);

async function serve(port: number): Promise<void> {
  const models = await startScriptedKserve({ host: '0.0.0.0', port, grpc: { messageBytesMax: 2 ** 31 - 1 } });
  console.log(`serving on port ${models.server.port} until SIGINT`);
  await once(process, 'SIGINT');
  await models.close();
}

async function play(folder: string): Promise<void> {
  const models = await startScriptedKserve();
  const client = new KserveClient(`127.0.0.1:${models.server.port}`);
  let [passed, failed] = [0, 0];
  for (const each of readCases(folder)) {
    const faults = await playCase(each, client, models).catch((thrown: unknown) => [String(thrown)]);
    for (const fault of faults) console.log(`${each.id} FAILED ${fault}`);
    if (faults.length === 0) passed++;
    else failed++;
  }
  client.close();
  await models.close();
  console.log(`${passed} passed, ${failed} failed`);
  process.exitCode = failed === 0 ? 0 : 1;
}
