import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { inClusterAccess } from '../../../shared/discovery/kubernetes/access.ts';
import { findAccess } from '../../../shared/discovery/kubernetes/find-access.ts';
import { podFact } from '../../../shared/discovery/kubernetes/identity.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const NEVER = new AbortController().signal;

describe('access to the API of Kubernetes', () => {
  let folder: string;
  let clock: VirtualClock;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'stator-kube-'));
    clock = new VirtualClock();
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  const write = (name: string, text: string) => writeFile(join(folder, name), text);
  /** Finds the access of a kubeconfig in the folder. */
  const accessBy = async (config: string) => {
    await write('config', config);
    return findAccess({ KUBECONFIG: join(folder, 'config') }, clock);
  };
  const configOf = (user: string, cluster = 'server: https://api:6443') => `
contexts: [{ name: c, context: { cluster: k, user: u, namespace: serving } }]
clusters: [{ name: k, cluster: { ${cluster} } }]
users: [{ name: u, user: { ${user} } }]
current-context: c
`;

  describe('in a pod', () => {
    const open = () => inClusterAccess({ host: 'fd00::1', port: '443', folder, clock });
    beforeEach(async () => {
      await write('token', 'one\n');
      await write('ca.crt', 'authority');
      await write('namespace', 'serving\n');
    });

    it('has the server, the authority and the namespace of the service account', async () => {
      const { server, ca, namespace } = await open();
      expect([server.href, String(ca), namespace]).toEqual(['https://[fd00::1]/', 'authority', 'serving']);
    });

    it('reads a token again after a minute, and at once when the server refuses it', async () => {
      const { credentials } = await open();
      await write('token', 'two');
      expect(await credentials(false, NEVER)).toEqual({ token: 'one' });
      await clock.advance(60_000);
      expect(await credentials(false, NEVER)).toEqual({ token: 'two' });
      await write('token', 'three');
      expect(await credentials(true, NEVER)).toEqual({ token: 'three' });
    });

    it('fails at its start without a service account, and names the file', async () => {
      await rm(join(folder, 'token'));
      await expect(open()).rejects.toThrow(/cannot read the token for the Kubernetes API, .*token/);
    });
  });

  describe('by a kubeconfig', () => {
    it('takes the current context of several files, of which the first counts', async () => {
      await write('other', configOf('token: other'));
      await write('first', 'users: [{ name: u, user: { token: mine } }]');
      const paths = ['first', 'missing', 'other'].map((name) => join(folder, name)).join(':');
      const { server, namespace, credentials } = await findAccess({ KUBECONFIG: paths }, clock);
      expect([server.href, namespace]).toEqual(['https://api:6443/', 'serving']);
      expect(await credentials(false, NEVER)).toMatchObject({ token: 'mine' });
    });

    it('reads certificates inline and from files beside it, and the options of TLS', async () => {
      await write('key.pem', 'key');
      const data = (text: string) => Buffer.from(text).toString('base64');
      const cluster = `server: https://api, certificate-authority-data: ${data('ca')}, tls-server-name: n, insecure-skip-tls-verify: true`;
      const access = await accessBy(configOf(`client-certificate-data: ${data('cert')}, client-key: key.pem`, cluster));
      expect([String(access.ca), access.serverName, access.isUnchecked]).toEqual(['ca', 'n', true]);
      const { cert, key } = await access.credentials(false, NEVER);
      expect([String(cert), String(key)]).toEqual(['cert', 'key']);
    });

    it('follows a file with a token, and takes user and password', async () => {
      await mkdir(join(folder, 'run'));
      await write('run/token', 'one');
      const { credentials } = await accessBy(configOf('tokenFile: run/token'));
      expect(await credentials(false, NEVER)).toMatchObject({ token: 'one' });
      await write('run/token', 'two');
      expect(await credentials(false, NEVER)).toMatchObject({ token: 'one' });
      expect(await credentials(true, NEVER)).toMatchObject({ token: 'two' });
      const basic = await accessBy(configOf('username: a, password: b'));
      expect(await basic.credentials(false, NEVER)).toMatchObject({ basic: 'a:b' });
    });

    it.each([
      ['current-context: c', /has no|is not among/],
      [
        configOf('token: t').replace('cluster: k,', 'cluster: x,'),
        /cluster of the context x is not among its clusters/,
      ],
      [configOf('token: t', 'server: tcp://api'), /server of cluster k is not an http or https URL/],
      [configOf('token: t', 'server: https://api, proxy-url: http://p'), /proxy-url of a cluster is not supported/],
      [configOf('auth-provider: { name: oidc }'), /auth-provider of a user is not supported: use a token or exec/],
      [
        configOf('exec: { apiVersion: client.authentication.k8s.io/v1alpha1, command: x }'),
        /apiVersion .*v1alpha1 of exec/,
      ],
      ['a: [', /is not YAML/],
    ])('says what it cannot follow: %j', async (config, problem) => {
      await expect(accessBy(config)).rejects.toThrow(problem);
    });

    it('says where it looked if there is none', async () => {
      await expect(findAccess({ KUBECONFIG: join(folder, 'none') }, clock)).rejects.toThrow(
        /there is no kubeconfig at .*none/,
      );
    });
  });

  describe('by a program', () => {
    const exec = (more = '') =>
      configOf(
        `exec: { apiVersion: client.authentication.k8s.io/v1, command: ./login, args: [a b], env: [{ name: E, value: v }]${more} }`,
      );
    const program = async (status: string) => {
      const lines = ['#!/bin/sh', 'echo "$1 $E" >> "$(dirname "$0")/ran"', `echo '${status}'`];
      await write('login', lines.join('\n'));
      await chmod(join(folder, 'login'), 0o755);
    };
    const ran = async () => (await readFile(join(folder, 'ran'), 'utf8')).trim().split('\n');

    it('runs it once until its credentials end, or the server refuses them', async () => {
      const untilMs = clock.wallMs() + 3_600_000;
      const status = { token: 't', expirationTimestamp: new Date(untilMs).toISOString() };
      await program(JSON.stringify({ kind: 'ExecCredential', status }));
      const { credentials } = await accessBy(exec());
      expect(await Promise.all([credentials(false, NEVER), credentials(false, NEVER)])).toMatchObject([
        { token: 't' },
        { token: 't' },
      ]);
      expect(await ran()).toEqual(['a b v']);
      await credentials(true, NEVER);
      expect(await ran()).toHaveLength(2);
      await clock.advance(3_595_000);
      await credentials(false, NEVER);
      expect(await ran()).toHaveLength(3);
    });

    it('says what went wrong', async () => {
      await program('no json');
      const { credentials } = await accessBy(exec());
      await expect(credentials(false, NEVER)).rejects.toThrow(/login printed no ExecCredential/);
      await write('login', '#!/bin/sh\necho "please log in" >&2\nexit 1');
      await expect(credentials(false, NEVER)).rejects.toThrow(/login of exec failed: please log in/);
      await expect(accessBy(exec(', interactiveMode: Always'))).rejects.toThrow(/needs a person/);
    });
  });

  it('takes the facts of a pod from its files before the variables', async () => {
    await write('pod_name', 'restored\n');
    expect([podFact('pod_name', 'old', folder), podFact('pod_uid', 'u', folder)]).toEqual(['restored', 'u']);
  });
});
