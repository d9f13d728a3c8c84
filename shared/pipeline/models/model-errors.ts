import { ServeError } from '../../errors/index.ts';

/** Nobody registered the name, or not for that kind of request (http-api.md, section 2.2). */
export function modelNotFound(param?: string): ServeError {
  return new ServeError('model_not_found', 'Model not found', { param });
}

/** Workers take seconds at least to come up; sooner tries would find nothing new. */
const NOT_READY_RETRY_MS = 5000;

/** The name is registered or remembered, but no namespace has all the workers that it needs. */
export function modelNotReady(name: string): ServeError {
  const message =
    `Model \`${name}\` is not ready to serve requests yet. ` +
    'The deployment may still be starting up or is not fully provisioned. Please retry shortly.';
  return new ServeError('service_unavailable', message, { param: 'model', retryAfterMs: NOT_READY_RETRY_MS });
}
