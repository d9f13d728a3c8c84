import { ServeError } from '../../errors/index.ts';

/** Nobody registered the name, or not for that kind of request (http-api.md, section 2.2). */
export function modelNotFound(param?: string): ServeError {
  return new ServeError('model_not_found', 'Model not found', { param });
}

/** The name is registered, but no namespace has all the workers that it needs. */
export function modelNotReady(name: string): ServeError {
  const message =
    `Model \`${name}\` is not ready to serve requests yet. ` +
    'The deployment may still be starting up or is not fully provisioned. Please retry shortly.';
  return new ServeError('service_unavailable', message, { param: 'model' });
}
