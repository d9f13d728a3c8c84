import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

/** Caller of the function: an API Gateway REST API (payload 1.0) or a function URL (payload 2.0). */
export type EventFormat = 'rest-api' | 'function-url';

/** Returns the event that the service makes of a request. */
export function toLambdaEvent(format: EventFormat, request: IncomingMessage, body: Buffer): object {
  const url = new URL(request.url ?? '/', 'http://front');
  return format === 'rest-api' ? toRestApiEvent(request, url, body) : toFunctionUrlEvent(request, url, body);
}

function toRestApiEvent(request: IncomingMessage, url: URL, body: Buffer): object {
  const lines = headerLines(request);
  const lists: Record<string, string[]> = {};
  for (const [name, value] of lines) {
    const list = lists[name];
    if (list === undefined) lists[name] = [value];
    else list.push(value);
  }
  const names = [...new Set(url.searchParams.keys())];
  return {
    resource: '/{proxy+}',
    path: url.pathname,
    httpMethod: request.method,
    headers: Object.fromEntries(lines), // the last line of a name wins, as in the service
    multiValueHeaders: lists,
    queryStringParameters: names.length > 0 ? Object.fromEntries(url.searchParams) : null,
    multiValueQueryStringParameters:
      names.length > 0 ? Object.fromEntries(names.map((name) => [name, url.searchParams.getAll(name)])) : null,
    pathParameters: { proxy: url.pathname.slice(1) },
    stageVariables: null,
    requestContext: {
      resourcePath: '/{proxy+}',
      httpMethod: request.method,
      path: `/prod${url.pathname}`,
      stage: 'prod',
      accountId: '000000000000',
      apiId: 'local',
      requestId: randomUUID(),
      identity: { sourceIp: request.socket.remoteAddress, userAgent: request.headers['user-agent'] ?? null },
    },
    ...toPayload(request, body, null),
  };
}

function toFunctionUrlEvent(request: IncomingMessage, url: URL, body: Buffer): object {
  const headers: Record<string, string> = {};
  for (const [name, value] of headerLines(request)) {
    const lowerName = name.toLowerCase();
    headers[lowerName] = headers[lowerName] === undefined ? value : `${headers[lowerName]},${value}`;
  }
  const { cookie, ...rest } = headers;
  return {
    version: '2.0',
    routeKey: '$default',
    rawPath: url.pathname,
    rawQueryString: url.search.slice(1),
    ...(cookie === undefined ? {} : { cookies: cookie.split('; ') }),
    headers: rest,
    requestContext: {
      accountId: 'anonymous',
      apiId: 'local',
      http: { method: request.method, path: url.pathname, protocol: 'HTTP/1.1' },
      requestId: randomUUID(),
      stage: '$default',
    },
    ...toPayload(request, body, undefined),
  };
}

/** Lists the headers, with names in the client's own case. */
function headerLines(request: IncomingMessage): [string, string][] {
  const lines: [string, string][] = [];
  for (let at = 0; at + 1 < request.rawHeaders.length; at += 2) {
    lines.push([request.rawHeaders[at] ?? '', request.rawHeaders[at + 1] ?? '']);
  }
  return lines;
}

function toPayload(request: IncomingMessage, body: Buffer, absent: null | undefined): object {
  if (body.length === 0) return { ...(absent === null ? { body: null } : {}), isBase64Encoded: false };
  const isText = /^(text\/|application\/(json|xml|javascript|x-www-form-urlencoded))/.test(
    request.headers['content-type'] ?? '',
  );
  return { body: body.toString(isText ? 'utf8' : 'base64'), isBase64Encoded: !isText };
}
