import { generateKeyPairSync } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import type { UnknownRecord } from '../../../shared/records/index.ts';
import { type EtcdCluster, startEtcd } from '../etcd-server.ts';
import { freePort } from '../free-port.ts';
import { type SpawnedProcess, spawnProgram } from '../spawn-node.ts';
import { readTlsFixture } from '../tls-fixtures.ts';
import { waitUntil } from '../wait-until.ts';
import type { ClusterPod } from './cluster.ts';
import { sliceOf } from './cluster.ts';

const ADMIN = 'admin-token';
const PAGE = new URL('../../../docs/kubernetes.md', import.meta.url);

/** Whether `npm run test:kubernetes` has built an API server. */
export function hasKubeServer(): boolean {
  return Boolean(process.env.STATOR_TEST_KUBE_APISERVER && process.env.STATOR_TEST_ETCD_BIN);
}

/** A real API server with an etcd of its own. It has no controllers: tests write pods, slices and readiness. */
export class KubeServer {
  readonly port: number;
  readonly #binary: string;
  readonly #etcd: EtcdCluster;
  readonly #folder: string;
  #process: SpawnedProcess | undefined;
  #names = 0;

  private constructor(binary: string, etcd: EtcdCluster, folder: string, port: number) {
    this.#binary = binary;
    this.#etcd = etcd;
    this.#folder = folder;
    this.port = port;
  }

  static async start(): Promise<KubeServer> {
    const binary = process.env.STATOR_TEST_KUBE_APISERVER;
    if (!binary) throw new Error('STATOR_TEST_KUBE_APISERVER is not set: run npm run test:kubernetes');
    const folder = await mkdtemp(join(tmpdir(), 'stator-kube-'));
    const server = new KubeServer(binary, await startEtcd(), folder, await freePort());
    const { privateKey, publicKey } = generateKeyPairSync('rsa', {
      modulusLength: 2048,
      privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
      publicKeyEncoding: { type: 'spki', format: 'pem' },
    });
    await Promise.all([
      writeFile(join(folder, 'sa.key'), privateKey),
      writeFile(join(folder, 'sa.pub'), publicKey),
      writeFile(join(folder, 'tokens.csv'), `${ADMIN},admin,1,"system:masters"\n`),
      ...['first.crt', 'first.key'].map((name) => writeFile(join(folder, name), readTlsFixture(name))),
    ]);
    await server.restart();
    const [definition] = await manifests('serving');
    await server.call('POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', definition);
    return server;
  }

  /** Starts it, again if it runs. */
  async restart(): Promise<void> {
    await this.kill();
    const at = (name: string): string => join(this.#folder, name);
    const started = spawnProgram(this.#binary, [
      ...['--etcd-servers', this.#etcd.urls.join(), '--secure-port', String(this.port)],
      ...['--bind-address', '127.0.0.1', '--advertise-address', '127.0.0.1', '--endpoint-reconciler-type', 'none'],
      ...['--tls-cert-file', at('first.crt'), '--tls-private-key-file', at('first.key'), '--cert-dir', this.#folder],
      ...['--service-account-issuer', 'https://local', '--service-account-key-file', at('sa.pub')],
      ...['--service-account-signing-key-file', at('sa.key'), '--service-cluster-ip-range', '10.0.0.0/24'],
      ...['--token-auth-file', at('tokens.csv'), '--authorization-mode', 'RBAC'],
      // Without kubelets, the second one would keep nodes tainted.
      ...['--disable-admission-plugins', 'ServiceAccount,TaintNodesByCondition'],
    ]);
    this.#process = started;
    const isReady = async (): Promise<boolean> => (await this.#fetch('GET', '/readyz')).status === 200;
    await waitUntil(isReady, { what: 'the API server', timeoutMs: 60_000 }).catch((error: Error) => {
      throw new Error(`${error.message}\n${started.stderr().slice(-2000)}`, { cause: error });
    });
  }

  /** Makes it forget all changes before now: etcd drops them, and the server starts without those in its memory. */
  async forget(): Promise<void> {
    const [member] = this.#etcd.members;
    const { header } = (await member?.call('kv/range', { key: 'AA==' })) ?? {};
    const { revision } = header as { readonly revision: string };
    await member?.call('kv/compaction', { revision, physical: true });
    await this.restart();
  }

  /** Ends all tokens of the service account, and returns a new one. */
  async renewToken(namespace: string, account = 'stator'): Promise<string> {
    const accounts = `/api/v1/namespaces/${namespace}/serviceaccounts`;
    await this.call('DELETE', `${accounts}/${account}`);
    await this.call('POST', accounts, { metadata: { name: account } });
    return this.tokenIn(namespace, account);
  }

  /** Kills it with SIGKILL; its etcd goes on. */
  async kill(): Promise<void> {
    await this.#process?.kill();
  }

  async stop(): Promise<void> {
    await this.kill();
    await this.#etcd.stop();
    await rm(this.#folder, { recursive: true, force: true });
  }

  /** Makes a namespace with the service account and the rights of docs/kubernetes.md. Returns its name. */
  async addNamespace(): Promise<string> {
    const namespace = `test-${++this.#names}`;
    const rbac = `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}`;
    const [, role, binding] = await manifests(namespace);
    await this.call('POST', '/api/v1/namespaces', { metadata: { name: namespace } });
    await this.call('POST', `/api/v1/namespaces/${namespace}/serviceaccounts`, { metadata: { name: 'stator' } });
    await this.call('POST', `${rbac}/roles`, role);
    await this.call('POST', `${rbac}/rolebindings`, binding);
    return namespace;
  }

  /** Returns a token of the service account, as the kubelet would mount it. */
  async tokenIn(namespace: string, account = 'stator'): Promise<string> {
    const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${account}/token`;
    const answer = await this.call('POST', path, { spec: { expirationSeconds: 600 } });
    return String((answer.status as UnknownRecord).token);
  }

  /** Adds a pod that no node runs. */
  async addPod(namespace: string): Promise<ClusterPod> {
    const name = `pod-${++this.#names}`;
    const spec = { containers: [{ name: 'main', image: 'none' }] };
    const pod = await this.call('POST', `/api/v1/namespaces/${namespace}/pods`, { metadata: { name }, spec });
    return { name, uid: String((pod.metadata as UnknownRecord).uid) };
  }

  /** Sets whether a pod is ready, in a slice of its own. */
  async setReady(namespace: string, pod: ClusterPod, isReady: boolean): Promise<void> {
    const name = `workers-${pod.name}`;
    const slice = sliceOf([{ ...pod, isReady }]);
    const path = `/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices/${name}?fieldManager=test&force=true`;
    await this.call('PATCH', path, { ...slice, metadata: { ...slice.metadata, name } });
  }

  /** Calls the API as an administrator. @param type content type; a patch is a server-side apply by default */
  async call(method: string, path: string, body?: unknown, type?: string): Promise<UnknownRecord> {
    const { status, text } = await this.#fetch(method, path, body, type);
    if (status >= 300) throw new Error(`${method} ${path}: ${status} ${text}`);
    return JSON.parse(text) as UnknownRecord;
  }

  /** Writes a kubeconfig of an administrator, for controllers. Returns its path. */
  async writeKubeconfig(): Promise<string> {
    const path = join(this.#folder, 'kubeconfig');
    const cluster = {
      server: `https://127.0.0.1:${this.port}`,
      'certificate-authority': join(this.#folder, 'first.crt'),
    };
    const named = { name: 'here', cluster };
    const user = { name: 'admin', user: { token: ADMIN } };
    const context = { name: 'here', context: { cluster: 'here', user: 'admin' } };
    const kinds = { clusters: [named], users: [user], contexts: [context], 'current-context': 'here' };
    await writeFile(path, JSON.stringify({ apiVersion: 'v1', kind: 'Config', ...kinds }));
    return path;
  }

  async #fetch(
    method: string,
    path: string,
    body?: unknown,
    type = method === 'PATCH' ? 'application/apply-patch+yaml' : 'application/json',
  ): Promise<{ readonly status: number; readonly text: string }> {
    const { request } = await import('node:https');
    const text = body === undefined ? undefined : JSON.stringify(body);
    // Node leaves the length of the body of a DELETE out.
    const length = text === undefined ? {} : { 'content-length': Buffer.byteLength(text) };
    const headers = { authorization: `Bearer ${ADMIN}`, 'content-type': type, ...length };
    const options = { host: '127.0.0.1', port: this.port, path, method, headers, ca: readTlsFixture('first.crt') };
    return new Promise((resolve, reject) => {
      const sent = request(options, (response) => {
        let answered = '';
        response.setEncoding('utf8');
        response.on('data', (part: string) => {
          answered += part;
        });
        response.on('end', () => resolve({ status: response.statusCode ?? 0, text: answered }));
      });
      sent.on('error', reject).end(text);
    });
  }
}

/** Returns the definition, the role and its binding out of docs/kubernetes.md, for a namespace. */
async function manifests(namespace: string): Promise<readonly unknown[]> {
  const page = await readFile(PAGE, 'utf8');
  const blocks = [...page.matchAll(/```yaml\n([\s\S]*?)```/g)].map(([, block = '']) => block);
  const own = blocks.filter((block) => /^kind: (CustomResourceDefinition|Role)$/m.test(block));
  const documents = own.flatMap((block) => parseAllDocuments(block.replaceAll('serving', namespace)));
  return documents.map((document) => document.toJS() as unknown);
}
