import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { liveProbe } from '../../infra/constructs/live-probe.ts';
import { devTemplate, productionTemplates, type Resource } from './templates.ts';

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

/** Port of a server that answers `/live` with `status`, and everything else with 404. */
async function serving(status: number): Promise<number> {
  const server = createServer((request, response) => {
    const isProbe = request.url === '/live' && request.headers.host?.startsWith('127.0.0.1') === true;
    response.writeHead(isProbe ? status : 404).end('{}');
  });
  servers.push(server);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return (server.address() as AddressInfo).port;
}

async function exitCode([, command = '', ...argv]: readonly string[], path = process.env.PATH): Promise<number> {
  const [code] = (await once(spawn(command, argv, { env: { PATH: path }, stdio: 'ignore' }), 'exit')) as [number];
  return code;
}

describe('the health command of a container', () => {
  it.each([
    [200, 0],
    [204, 0],
    [503, 1],
    [404, 1],
    [301, 1],
  ])('says of %i: exit code %i', async (status, code) => {
    expect(await exitCode(liveProbe(await serving(status)))).toBe(code);
  });

  it('fails if no process listens', async () => {
    const port = await serving(200);
    servers[0]?.close();
    expect(await exitCode(liveProbe(port))).toBe(1);
  });

  it('fails if a process listens and says nothing', async () => {
    const server = createServer(() => {}); // takes the request
    servers.push(server);
    await once(server.listen(0, '127.0.0.1'), 'listening');
    expect(await exitCode(liveProbe((server.address() as AddressInfo).port))).toBe(1);
    server.closeAllConnections();
  });

  it('asks with Node where an image has no bash', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'stator-probe-'));
    symlinkSync(process.execPath, join(folder, 'node'));
    symlinkSync('/bin/sh', join(folder, 'sh'));
    expect(await exitCode(liveProbe(await serving(200)), folder)).toBe(0);
    expect(await exitCode(liveProbe(await serving(503)), folder)).toBe(1);
    rmSync(folder, { recursive: true });
  });

  it('starts no Node in any container of Stator', () => {
    const templates = [devTemplate(), ...Object.values(productionTemplates())];
    const containers = templates.flatMap((template) =>
      (Object.values(template.findResources('AWS::ECS::TaskDefinition')) as Resource[]).flatMap(
        ({ Properties }) =>
          Properties.ContainerDefinitions as { Command?: string[]; HealthCheck?: { Command: string[] } }[],
      ),
    );
    const own = containers.filter(({ Command }) => /^(frontend|worker)$/.test(Command?.[0] ?? ''));
    expect(own).toHaveLength(5);
    for (const { HealthCheck } of own) expect(HealthCheck?.Command.slice(0, 3)).toEqual(['CMD', 'sh', '-c']);
  });
});
