import type { EdgeSettings } from '../../config/index.ts';
import { type LiveModelDirectory, workerSetsOf } from '../../pipeline/index.ts';
import type { FrontendDeps } from './deps.ts';
import { factsOf, ModelGauges, ModelLines } from './observers.ts';
import { primaryModels } from './open-directory.ts';

/** Shows the models of a directory, and their workers, in the metrics and in the log. */
export function showModels(
  settings: EdgeSettings,
  { clock, metrics, logger, lifetime }: FrontendDeps,
  directory: LiveModelDirectory,
): void {
  const { httpSvcConfigMetricsPollIntervalSecs: pollSecs } = settings;
  const gauges = lifetime.use(
    new ModelGauges({
      clock,
      intervalMs: pollSecs === undefined ? undefined : pollSecs * 1000,
      list: () => primaryModels(directory).map((model) => factsOf(model, settings)),
      show: (facts) => metrics.setModel(facts),
    }),
  );
  const lines = new ModelLines(logger.for('models'));
  directory.follow(() => {
    gauges.changed();
    lines.changed(primaryModels(directory));
  });
  metrics.readModelsFrom(() =>
    primaryModels(directory).map((model) => ({ model: model.name, isReady: model.readiness.isReady })),
  );
  metrics.readWorkersFrom(() =>
    primaryModels(directory)
      .flatMap(workerSetsOf)
      .flatMap(({ workers }) => workers.map(({ id }) => id)),
  );
}
