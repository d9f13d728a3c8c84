import type { Clock } from '../../clock/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { EngineProcess } from '../process/engine-process.ts';
import { freePorts } from '../process/free-ports.ts';
import { levelOfLine } from '../process/output-lines.ts';
import { type VllmLaunchSettings, vllmLaunch } from './launch.ts';

const STOP_GRACE_MS = 2000;

/** The part of an engine that runs on one more machine: it computes, and answers nobody but the engine's first node. */
export interface SecondaryNode {
  /** Resolves when the process has ended by itself, with the reason. */
  readonly exit: Promise<Error>;
  /** Ends the process. Idempotent. */
  stop(): Promise<void>;
}

/**
 * Starts `vllm serve --headless`. How the nodes find each other is vLLM's own matter:
 * `--data-parallel-address`, `--data-parallel-start-rank` and the like are among `settings.args`.
 */
export async function startSecondaryVllm(
  settings: VllmLaunchSettings,
  { clock, logger }: { readonly clock: Clock; readonly logger: Logger },
): Promise<SecondaryNode> {
  const http = await freePorts(1);
  const planned = vllmLaunch({ ...settings, publishesKvEvents: false }).command({ http, events: 0, replay: 0 });
  const command = { ...planned, args: [...planned.args, '--headless'] };
  logger.info('starting a secondary node of the engine', { program: command.program, args: command.args.join(' ') });
  const process = new EngineProcess({ command, clock, onLine: (line) => logger[levelOfLine(line)](line) });
  return {
    exit: process.ended.then(({ reason }) => new Error(reason)),
    stop: () => process.stop(STOP_GRACE_MS),
  };
}
