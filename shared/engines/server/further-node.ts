import { hideSecrets } from '../../config/index.ts';
import type { EngineContext, SecondaryNode } from '../types.ts';
import { EngineProcess, levelOfLine } from './engine-process.ts';
import { HeldPorts } from './held-ports.ts';
import { type LaunchPlan, takePorts } from './launch-plan.ts';

const STOP_GRACE_MS = 2000;

/**
 * Starts the part of an engine that runs on a further machine. The engine itself connects its nodes.
 * @param own arguments that make the engine such a part, after those of the plan
 */
export async function startFurtherNode(
  plan: LaunchPlan,
  own: readonly string[],
  { clock, logger }: Pick<EngineContext, 'clock' | 'logger'>,
): Promise<SecondaryNode> {
  const held = new HeldPorts();
  try {
    const planned = plan.command(await takePorts(plan, held));
    const command = { ...planned, args: [...planned.args, ...own] };
    const args = hideSecrets(command.args).join(' ');
    logger.info('starting a secondary node of the engine', { program: command.program, args });
    const process = new EngineProcess({ command, clock, onLine: (line) => logger[levelOfLine(line)](line) });
    return {
      exit: process.ended.then(({ reason }) => new Error(reason)),
      async stop() {
        await process.stop(STOP_GRACE_MS);
        held.release();
      },
    };
  } catch (thrown) {
    held.release();
    throw thrown;
  }
}
