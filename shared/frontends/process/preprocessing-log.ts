import type { PipelineObserver } from '../../pipeline/index.ts';
import type { Logger } from '../../telemetry/index.ts';

/** `observer`, with a line for the time of each preprocessing function (`--dyn-debug-perf`). */
export function logPreprocessing(
  observer: Pick<PipelineObserver, 'stage' | 'template' | 'tokenize'>,
  log: Logger,
): Pick<PipelineObserver, 'stage' | 'template' | 'tokenize'> {
  const tell = (name: string, ms: number): void =>
    log.info('time', { function: name, ms: Math.round(ms * 1000) / 1000 });
  return {
    stage(stage, ms) {
      if (stage === 'preprocess') tell(stage, ms);
      observer.stage(stage, ms);
    },
    template(ms) {
      tell('render_template', ms);
      observer.template(ms);
    },
    tokenize(ms) {
      tell('tokenize', ms);
      observer.tokenize(ms);
    },
  };
}
