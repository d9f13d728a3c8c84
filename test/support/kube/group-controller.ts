import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { parse } from 'yaml';
import { freePort } from '../free-port.ts';
import { type SpawnedProcess, spawnProgram } from '../spawn-node.ts';
import { readTlsFixture } from '../tls-fixtures.ts';
import { groupDefinitions } from '../tools/group-controller.ts';
import type { KubeServer } from './kube-server.ts';

/** Whether `npm run test:kubernetes` has built the controller of LeaderWorkerSet. */
export function hasGroupController(): boolean {
  return Boolean(process.env.STATOR_TEST_GROUP_CONTROLLER);
}

const GROUP = 'leaderworkerset.x-k8s.io';

/** Starts the controller of LeaderWorkerSet, with its definitions, and its webhooks in the server. */
export async function startGroupController(server: KubeServer): Promise<SpawnedProcess> {
  const binary = process.env.STATOR_TEST_GROUP_CONTROLLER;
  if (!binary) throw new Error('STATOR_TEST_GROUP_CONTROLLER is not set: run npm run test:kubernetes');
  for (const file of await readdir(groupDefinitions)) {
    const definition = parse(await readFile(join(groupDefinitions, file), 'utf8')) as object;
    await server.call('POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', definition);
  }
  const kubeconfig = await server.writeKubeconfig();
  const folder = join(dirname(kubeconfig), 'lws');
  const port = await freePort();
  await mkdir(folder);
  await writeFile(join(folder, 'tls.crt'), readTlsFixture('first.crt'));
  await writeFile(join(folder, 'tls.key'), readTlsFixture('first.key'));
  const settings = {
    apiVersion: 'config.lws.x-k8s.io/v1alpha1',
    kind: 'Configuration',
    leaderElection: { leaderElect: false },
    internalCertManagement: { enable: false },
    webhook: { host: '127.0.0.1', port, certDir: folder },
    health: { healthProbeBindAddress: `127.0.0.1:${await freePort()}` },
  };
  await writeFile(join(folder, 'config.yaml'), JSON.stringify(settings));
  await addWebhooks(server, port);
  return spawnProgram(binary, ['--config', join(folder, 'config.yaml'), '--metrics-bind-address', '0'], {
    env: { KUBECONFIG: kubeconfig },
  });
}

/** Makes the API server ask the controller about sets of groups and their pods, which get their labels there. */
async function addWebhooks(server: KubeServer, port: number): Promise<void> {
  const caBundle = Buffer.from(readTlsFixture('first.crt')).toString('base64');
  const hook = (name: string, path: string, rule: object, objectSelector?: object) => ({
    ...{ name, admissionReviewVersions: ['v1'], failurePolicy: 'Fail', sideEffects: 'None' },
    clientConfig: { url: `https://127.0.0.1:${port}/${path}`, caBundle },
    rules: [rule],
    ...(objectSelector === undefined ? {} : { objectSelector }),
  });
  const ofSets = {
    apiGroups: [GROUP],
    apiVersions: ['v1'],
    operations: ['CREATE', 'UPDATE'],
    resources: ['leaderworkersets'],
  };
  const ofPods = { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'] };
  const inGroups = { matchExpressions: [{ key: 'leaderworkerset.sigs.k8s.io/name', operator: 'Exists' }] };
  const api = '/apis/admissionregistration.k8s.io/v1';
  await server.call('POST', `${api}/mutatingwebhookconfigurations`, {
    metadata: { name: 'lws' },
    webhooks: [
      hook('sets.kb.io', 'mutate-leaderworkerset-x-k8s-io-v1-leaderworkerset', ofSets),
      hook('pods.kb.io', 'mutate--v1-pod', ofPods, inGroups),
    ],
  });
}
