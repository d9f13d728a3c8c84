/**
 * Takes the stream of the planner's table, and tells the planner how many requests the HTTP function holds for each
 * model in all its environments.
 */
import { SYSTEM } from '../../shared/clock/index.ts';
import { openHeldWaker, streamHandler } from '../../shared/commands/index.ts';
import { resolveConfig } from '../../shared/config/index.ts';
import { openLogger, renderEmbedded } from '../../shared/telemetry/index.ts';

const { settings, warnings } = resolveConfig('planner', [], process.env);
const logger = openLogger(settings);
for (const warning of warnings) logger.for('function').warn(warning);

const source = { dimension: 'FunctionName', name: process.env.AWS_LAMBDA_FUNCTION_NAME ?? 'unknown' } as const;
const onTold = (model: string, count: number): void => {
  process.stdout.write(renderEmbedded({ HeldRequests: count }, { source, model, timeMs: SYSTEM.clock.wallMs() }));
};

export const handler = streamHandler({
  clock: SYSTEM.clock,
  open: async () => openHeldWaker({ ...SYSTEM, settings, logger, onTold }),
});
