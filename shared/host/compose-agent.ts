import { uptime } from 'node:os';
import type { StartPhase } from '../protocol/index.ts';
import { type AgentDeps, HostAgent } from './agent.ts';
import type { HostDeps, HostParts } from './host-deps.ts';
import type { Phase } from './law/types.ts';
import { openCompileCache, openRunner, preparationParts, rulesOf, storeCompileCache } from './open-parts.ts';
import { Preparation } from './preparation.ts';
import { Replica } from './replica.ts';
import { StartPhases } from './start-phases.ts';
import { StateFile } from './state-file.ts';
import { replicaCount, replicaSpec } from './worker-command.ts';

/** Builds the agent of a machine with its workers. */
export function composeAgent(
  deps: HostDeps,
  parts: HostParts,
  beside: Pick<AgentDeps, 'lifecycle' | 'reports' | 'gpuFault' | 'readNotices'>,
): HostAgent {
  const { clock, logger, env } = deps;
  const { settings, served, identity, places, metrics } = parts;
  const log = logger.for('host');
  let progressAtMs = clock.wallMs();
  const moved = (): void => {
    progressAtMs = clock.wallMs();
  };
  const { reports } = beside;
  let took: Partial<Record<StartPhase, number>> = {};
  const phases = new StartPhases(clock, {
    began: (phase) => reports?.reached(phase),
    ended: (phase, seconds) => {
      took[phase] = Math.round(seconds * 10) / 10;
      metrics.phase(phase, seconds);
    },
  });
  const runner = openRunner(deps, parts);
  const wake = (): void => agent.wake();
  const cache = openCompileCache(deps, parts);
  const preparation = new Preparation({
    parts: preparationParts(parts, deps, { runner, cache, moved }),
    clock,
    logger: log,
    signal: parts.signal,
    onPhase: (phase) => phases.reach(phase),
    onChange: wake,
  });
  const indexes = Array.from({ length: replicaCount(settings) }, (_, at) => at);
  const onOutput = (text: string): void => {
    moved();
    phases.readOutput(text);
    process.stderr.write(text);
  };
  const replicas = indexes.map(
    (index) =>
      new Replica({
        index,
        runner,
        clock,
        logger: log,
        healthUrl: `http://${served.healthHost}:${settings.hostStatusPort + index}${served.healthPath}`,
        onOutput,
        onChange: wake,
        onFailure: () => metrics.workerFailed(),
      }),
  );
  const onPhase = (phase: Phase, _before: Phase | undefined, isFirst: boolean): void => {
    if (phase.kind === 'starting' || phase.kind === 'warming') {
      for (const replica of replicas) replica.forgive();
      took = {};
      phases.begin(isFirst ? uptime() : undefined);
    } else if (phase.kind === 'serving' && phases.current !== undefined) {
      phases.finish();
      log.info('the start took', { ...took });
      reports?.reached('serving', took);
      storeCompileCache(cache, parts.signal, log);
    } else {
      if (phase.kind === 'failed') reports?.reached('failed');
      phases.giveUp();
    }
  };
  const agent = new HostAgent({
    clock,
    logger: log,
    rules: rulesOf(settings),
    hooks: { launch: settings.hostLaunchHook, terminate: settings.hostTerminateHook },
    pollMs: settings.hostPollSecs * 1000,
    stateFile: new StateFile(parts.folder, identity.instanceId),
    preparation,
    replicas,
    specs: indexes.map((index) => replicaSpec(settings, index, { identity, places, env })),
    metrics,
    ...beside,
    progressAtMs: () => progressAtMs,
    startPhase: () => phases.current,
    onPhase,
    onStart: () => phases.reach('engine'),
  });
  return agent;
}
