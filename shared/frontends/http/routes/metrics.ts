import { reasonOf } from '../../../errors/index.ts';
import { answerText } from '../answers/answer.ts';
import type { HttpAppDeps } from '../deps.ts';
import type { HttpExchange } from '../hosts/exchange.ts';

/** `GET /metrics`: Prometheus text, 500 with plain text when it cannot be made. Never rejects. */
export async function serveMetrics({ metrics, logger }: HttpAppDeps, exchange: HttpExchange): Promise<void> {
  try {
    answerText(exchange, 200, metrics.contentType, await metrics.render());
  } catch (error) {
    logger.error('metrics cannot be rendered', { reason: reasonOf(error) });
    answerText(exchange, 500, 'text/plain', 'metrics cannot be rendered');
  }
}
