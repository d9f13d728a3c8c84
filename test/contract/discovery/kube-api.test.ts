import { FakeApiServer } from '../../support/kube/api-server.ts';
import { describeKubeApi } from './kube-api.contract.ts';

describeKubeApi('the API server of the tests', async () => {
  const fake = await FakeApiServer.start();
  return {
    access: { server: new URL(`http://127.0.0.1:${fake.port}`), credentials: async () => ({}) },
    namespace: 'default',
    compact: async () => fake.compact(),
    close: () => fake.close(),
  };
});
