import { describe, expect, it } from 'vitest';
import { readProgram } from '../../../../shared/commands/doctor/dynamo-program.ts';
import type { Finding } from '../../../../shared/commands/doctor/findings.ts';
import { examineSettings } from '../../../../shared/commands/doctor/settings.ts';
import { startCommand } from '../../../../shared/commands/doctor/start-command.ts';

function examined(line: string, env: Readonly<Record<string, string>> = {}) {
  const program = readProgram(line.split(' ').filter(Boolean));
  return { program, ...examineSettings(program, env) };
}

function saysOf(findings: readonly Finding[], verdict: string): readonly string[] {
  return findings.flatMap((finding) => (finding.verdict === verdict ? [`${finding.about}: ${finding.says}`] : []));
}

describe('the settings of a program of Dynamo', () => {
  it('are those of the same program here, with the defaults by which Dynamo meets', () => {
    const { findings, ...found } = examined('python -m dynamo.frontend --router-mode kv --http-port 9000');
    expect(saysOf(findings, 'fails')).toEqual([]);
    const start = startCommand(found.program, { findings, ...found }, { isJson: false, words: [], env: {} });
    expect(start).toBe('stator frontend --router-mode kv --http-port 9000 --discovery-backend=etcd --event-plane=zmq');
  });

  it('keep the flags and variables by which the program meets its workers', () => {
    const { flags, variables } = examined('--discovery-backend file', { DYN_EVENT_PLANE: 'nats', TMPDIR: '/scratch' });
    expect(flags).toEqual(['--discovery-backend', 'file']);
    expect(variables).toEqual({ DYN_FILE_KV: '/scratch/dynamo_store_kv' });
    expect(examined('', { DYN_DISCOVERY_BACKEND: 'file', DYN_FILE_KV: '/kv' }).variables).toEqual({});
  });

  it('name what does nothing here, and each default that is another one', () => {
    const { findings } = examined('--router-max-tree-size 5', { DYN_FRONTEND_JEMALLOC: '1', DYN_NOT_A_NAME: 'x' });
    const says = saysOf(findings, 'differs');
    expect(says).toContainEqual(expect.stringContaining('--router-max-tree-size is accepted, but does nothing'));
    expect(says).toContainEqual(expect.stringContaining('DYN_FRONTEND_JEMALLOC is accepted, but does nothing'));
    expect(says).toContainEqual(expect.stringContaining('unknown variable DYN_NOT_A_NAME'));
    expect(says).toContainEqual('--migration-limit: default 3 (Dynamo: 0; 1.6.1: 0)');
    expect(says.join()).not.toContain('--router-queue-policy'); // only mode kv has a queue
    expect(saysOf(examined('--router-mode kv').findings, 'differs').join()).toContain('--router-queue-policy');
    expect(saysOf(examined('--migration-limit 0').findings, 'differs').join()).not.toContain('--migration-limit');
  });

  it('say why a setting ends the start', () => {
    const { findings, config } = examined('--response-plane quic --static-endpoint');
    expect(config).toBeUndefined();
    expect(saysOf(findings, 'fails')).toEqual([
      expect.stringContaining('--static-endpoint is not accepted'),
      expect.stringContaining('--response-plane "quic"'),
    ]);
  });

  it('say if routers may not open the port on which they tell each other about requests', () => {
    const synced = 'python -m dynamo.frontend --router-mode kv --router-replica-sync';
    expect(saysOf(examined(synced).findings, 'fails')).toEqual([
      expect.stringMatching(
        /^--router-replica-sync: a ZMQ publisher .*set DYN_EVENT_PLANE=nats, .*STATOR_PLANE_OPEN=on/,
      ),
    ]);
    expect(saysOf(examined(synced, { STATOR_PLANE_OPEN: 'on' }).findings, 'fails')).toEqual([]);
    expect(saysOf(examined(`${synced} --event-plane nats`).findings, 'fails')).toEqual([]);
    expect(saysOf(examined(`${synced} --discovery-backend file`).findings, 'fails')).toEqual([]);
  });

  it('of a worker are only those by which a frontend meets it', () => {
    const { findings, flags, program } = examined(
      'python3 -m dynamo.vllm --model m --discovery-backend=etcd --request-plane nats --tensor-parallel-size 2',
    );
    expect(program.role).toBe('worker');
    expect(flags).toEqual(['--discovery-backend=etcd', '--request-plane', 'nats', '--event-plane=zmq']);
    expect(saysOf(findings, 'ok')).toContainEqual(expect.stringContaining('dynamo.vllm: stays as it is'));
    expect(saysOf(findings, 'fails')).toEqual([]);
  });

  it('belong to a program that has a counterpart', () => {
    expect(readProgram(['--http-port', '1']).module).toBe('dynamo.frontend');
    expect(() => readProgram(['python', '-m', 'dynamo.replay'])).toThrow('dynamo.replay is not a program');
    expect(() => readProgram(['vllm', 'serve'])).toThrow('"vllm": expected python -m dynamo.frontend');
  });
});

describe('the command to start', () => {
  it('quotes what a shell would read, and names the variables of the process that was looked at', () => {
    const { program, ...found } = examined("--model-name it's --discovery-backend=etcd");
    const looked = { isJson: false, words: [], env: { DYN_LOG: 'x', PATH: '/', ETCD_ENDPOINTS: 'http://e' }, pid: '7' };
    expect(startCommand(program, found, looked)).toBe(
      "stator frontend --model-name 'it'\\''s' --discovery-backend=etcd --event-plane=zmq   (with DYN_LOG, ETCD_ENDPOINTS of process 7)",
    );
  });
});
