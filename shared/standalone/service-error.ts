/** A request to one of the services that is refused: a status and a line that says why. */
export class ServiceError extends Error {
  override readonly name = 'ServiceError';
  readonly status: 400 | 404 | 405 | 409 | 413 | 415 | 422 | 429 | 500 | 503;

  constructor(status: ServiceError['status'], message: string) {
    super(message);
    this.status = status;
  }
}
