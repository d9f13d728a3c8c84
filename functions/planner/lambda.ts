/**
 * The planner as a function: it takes batches of a FIFO queue, with a message group for each model, and scales Auto
 * Scaling groups, or the Deployments of a cluster. What it opens for its first batch serves all batches of its
 * environment.
 */
import { fileURLToPath } from 'node:url';
import { SYSTEM } from '../../shared/clock/index.ts';
import { openQueuePlanner, queueHandler } from '../../shared/commands/index.ts';
import { resolveConfig } from '../../shared/config/index.ts';
import { openLogger, renderEmbedded } from '../../shared/telemetry/index.ts';
import { PLANNER_FLEETS_FILE } from './fleets-file.ts';

/** The fleets that the deployment has put beside the function, and their connector. Variables may name others. */
const fleets = fileURLToPath(new URL(PLANNER_FLEETS_FILE, import.meta.url));
const environment = { STATOR_PLANNER_CONNECTOR: 'ec2', STATOR_PLANNER_FLEETS: fleets, ...process.env };
const { settings, warnings } = resolveConfig('planner', [], environment);
const logger = openLogger(settings);
for (const warning of warnings) logger.for('function').warn(warning);

const source = { dimension: 'FunctionName', name: process.env.AWS_LAMBDA_FUNCTION_NAME ?? 'unknown' } as const;
const report = (figures: Parameters<typeof renderEmbedded>[0], messageGroup?: string): void => {
  process.stdout.write(renderEmbedded(figures, { source, messageGroup, timeMs: SYSTEM.clock.wallMs() }));
};

export const handler = queueHandler({
  clock: SYSTEM.clock,
  open: () =>
    openQueuePlanner({
      ...{ ...SYSTEM, settings, logger },
      onUnknown: (count) => report({ UnknownEvents: count }),
      onPlanned: ({ group, hasDecided, newest, podFailures }) => {
        const [UnappliedDecisions, CapacityStalled] = [Number(newest === 'unapplied'), Number(newest === 'stalled')];
        const ofPods = podFailures && { NodesMissing: podFailures.noNode, StartsFailed: podFailures.noStart };
        report({ Decisions: Number(hasDecided), UnappliedDecisions, CapacityStalled, ...ofPods }, group);
      },
    }),
});
