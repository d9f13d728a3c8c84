import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { EtcdDiscovery } from '../../../shared/discovery/etcd/etcd-discovery.ts';
import { type EtcdPlace, readCertificates } from '../../../shared/discovery/etcd/options.ts';
import { endpointAt, Witness } from '../../contract/discovery/records.ts';
import { type EtcdOptions, freePort, hasEtcd, startEtcd, waitUntil } from '../../support/index.ts';

const instances = { bucket: 'v1/instances', prefix: '' } as const;
const record = endpointAt('ns/backend/generate/a');

const tlsFile = (name: string): string => fileURLToPath(new URL(`../../fixtures/tls/${name}`, import.meta.url));

describe('the certificates for etcd', () => {
  it.each([
    [{ caFile: '/nowhere/ca.pem' }, /^ETCD_AUTH_CA: cannot read \/nowhere\/ca.pem: ENOENT/],
    [{ caFile: fileURLToPath(import.meta.url) }, /^the certificates for etcd \(.*etcd-access.test.ts\) are broken: /],
    [
      { certFile: tlsFile('client.crt'), keyFile: tlsFile('first.key') },
      /client.crt, .*first.key\) are broken: .*mismatch/,
    ],
  ])('are refused in one line: %j', (tls, problem) => {
    expect(() => readCertificates(tls)).toThrow(problem);
  });
});

describe('an etcd that is not there', () => {
  it('is named with its endpoints and the setting to check', async () => {
    const port = await freePort();
    const discovery = new EtcdDiscovery({ endpoints: [`http://127.0.0.1:${port}`] });
    await expect(discovery.put(record)).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringMatching(
        new RegExp(
          `^cannot write discovery in etcd at http://127.0.0.1:${port}: .*ECONNREFUSED.* Check ETCD_ENDPOINTS$`,
        ),
      ),
    });
    await discovery.close();
  });
});

describe.runIf(hasEtcd())('access to etcd', { timeout: 30_000 }, () => {
  const cleanUps: (() => Promise<void>)[] = [];
  const clusterOf = async (options: EtcdOptions) => {
    const cluster = await startEtcd(options);
    cleanUps.push(() => cluster.stop());
    const [member] = cluster.members;
    if (member === undefined) throw new Error('the cluster has no member');
    return member;
  };
  const open = (place: EtcdPlace) => {
    const discovery = new EtcdDiscovery({ ...place, ttlMs: 2000, onProblem: () => {} });
    cleanUps.push(() => discovery.close());
    return discovery;
  };
  beforeEach(() => void cleanUps.splice(0));
  afterEach(async () => {
    for (const cleanUp of cleanUps.toReversed()) await cleanUp();
  });

  /** An etcd that asks for a password, with a user who may do everything and one who may read nothing. */
  const guarded = async () => {
    const member = await clusterOf({ arguments: ['--auth-token-ttl=2'] });
    for (const name of ['root', 'nobody']) await member.call('auth/user/add', { name, password: `${name}-secret` });
    await member.call('auth/role/add', { name: 'root' });
    await member.call('auth/user/grant', { user: 'root', role: 'root' });
    await member.call('auth/enable', {});
    return { member, endpoints: [member.url] };
  };

  it('is granted to a user with the password, and stays after the token has ended', async () => {
    const { member, endpoints } = await guarded();
    const discovery = open({ endpoints, username: 'root', password: 'root-secret' });
    const witness = new Witness();
    await discovery.put(record);
    await discovery.watch(instances, witness);
    expect(witness.keys).toEqual(['ns/backend/generate/a']);
    await member.restart(); // simple tokens end with the member
    await discovery.put(endpointAt('ns/backend/generate/b'));
    await waitUntil(() => witness.present.size === 2);
    expect(await discovery.list(instances)).toHaveLength(2);
  });

  it.each([
    ['a wrong password', { username: 'root', password: 'wrong' }, /Check ETCD_AUTH_USERNAME and ETCD_AUTH_PASSWORD$/],
    ['no user', {}, /Check ETCD_AUTH_USERNAME and ETCD_AUTH_PASSWORD$/],
    [
      'a user without rights',
      { username: 'nobody', password: 'nobody-secret' },
      /permission denied\. Give the user of ETCD_AUTH_USERNAME the right to read and write stator\/ and to read v1\/$/,
    ],
  ])('is refused with what to check for %s', async (_, identity, problem) => {
    const { endpoints } = await guarded();
    const discovery = open({ endpoints, ...identity });
    await expect(discovery.list(instances)).rejects.toMatchObject({
      code: 'misconfigured',
      message: expect.stringMatching(problem),
    });
  });

  it('needs no password if etcd asks for none', async () => {
    const { url } = await clusterOf({});
    const discovery = open({ endpoints: [url], username: 'u', password: 'p' });
    await discovery.put(record);
    expect(await discovery.list(instances)).toEqual([record]);
  });

  const serverTls = [`--cert-file=${tlsFile('first.crt')}`, `--key-file=${tlsFile('first.key')}`];

  it('goes over TLS, with a client certificate if etcd asks for one', async () => {
    const clients = ['--client-cert-auth', `--trusted-ca-file=${tlsFile('client.crt')}`];
    const { url } = await clusterOf({ scheme: 'https', arguments: [...serverTls, ...clients] });
    const tls = { caFile: tlsFile('first.crt'), certFile: tlsFile('client.crt'), keyFile: tlsFile('client.key') };
    const discovery = open({ endpoints: [url], tls });
    await discovery.put(record);
    expect(await discovery.list(instances)).toEqual([record]);
    const without = open({ endpoints: [url], tls: { caFile: tlsFile('first.crt') } });
    await expect(without.list(instances)).rejects.toThrow(/Check ETCD_AUTH_CA, ETCD_AUTH_CLIENT_CERT/);
  });

  it('is refused if the CA does not know the server', async () => {
    const { url } = await clusterOf({ scheme: 'https', arguments: serverTls });
    const discovery = open({ endpoints: [url], tls: { caFile: tlsFile('second.crt') } });
    await expect(discovery.list(instances)).rejects.toThrow(
      /^cannot read discovery in etcd at https:.*certificate.*Check ETCD_AUTH_CA/,
    );
  });
});
