import { type DescFile, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';
import { framed } from './message-frames.ts';
import { decodeMessage, encodeMessage } from './messages/codec.ts';
import { HealthCheckRequestSchema, HealthCheckResponseSchema } from './messages/generated/health_pb.js';
import { ServerReflectionRequestSchema, ServerReflectionResponseSchema } from './messages/generated/reflection_pb.js';
import { type GrpcCall, type GrpcMethod, openUnary, receiveOne } from './methods.ts';
import { GrpcStatus, STATUS, statusOf } from './status.ts';

/** The standard health service. */
export const HEALTH = 'grpc.health.v1.Health';

const SERVING = 1;
const NOT_SERVING = 2;
const SERVICE_UNKNOWN = 3;

/** `grpc.health.v1.Health`, open to all clients. `Check` returns the present state, and `Watch` also each later one. */
export class HealthService {
  readonly methods: readonly GrpcMethod[];
  readonly #isServing: (service: string) => boolean | undefined;
  readonly #watchers = new Set<() => void>(); // one for each call under way
  #isShuttingDown = false;

  /** @param isServing whether a service answers now; undefined for an unknown one. The empty name means the process */
  constructor(isServing: (service: string) => boolean | undefined) {
    this.#isServing = isServing;
    this.methods = [
      openUnary(`/${HEALTH}/Check`, (message) => {
        const status = this.#statusOf(decodeMessage(HealthCheckRequestSchema, message).service);
        if (status === SERVICE_UNKNOWN) throw new GrpcStatus(STATUS.NOT_FOUND, 'unknown service');
        return encodeMessage(HealthCheckResponseSchema, { status });
      }),
      {
        path: `/${HEALTH}/Watch`,
        isOpenToAll: true,
        serve: (call) =>
          receiveOne(call, (message) => this.#watch(call, decodeMessage(HealthCheckRequestSchema, message).service)),
      },
    ];
  }

  /** Sends the new state to each call of `Watch` whose service has changed. */
  changed(): void {
    for (const report of this.#watchers) report();
  }

  /** Reports NOT_SERVING for every service from now on, and ends the calls of `Watch`. */
  shutDown(): void {
    this.#isShuttingDown = true;
    this.changed();
  }

  #watch(call: GrpcCall, service: string): void {
    let reported: number | undefined;
    let isWaiting = false;
    const report = (): void => {
      if (call.isBlocked() && !this.#isShuttingDown) {
        if (!isWaiting) call.onUnblocked(reportAgain); // a client that reads slowly gets only the last change
        isWaiting = true;
        return;
      }
      const status = this.#statusOf(service);
      if (status !== reported) call.write(framed(encodeMessage(HealthCheckResponseSchema, { status })));
      reported = status;
      if (!this.#isShuttingDown) return;
      this.#watchers.delete(report);
      call.end();
    };
    const reportAgain = (): void => {
      isWaiting = false;
      report();
    };
    this.#watchers.add(report);
    call.closed.addEventListener('abort', () => this.#watchers.delete(report), { once: true });
    report(); // only after it was added, because during a shutdown it removes itself
  }

  #statusOf(service: string): number {
    const isServing = this.#isServing(service);
    if (isServing === undefined) return SERVICE_UNKNOWN;
    return isServing && !this.#isShuttingDown ? SERVING : NOT_SERVING;
  }
}

/** The two names under which clients ask; their messages are the same. */
const SERVICES = ['grpc.reflection.v1.ServerReflection', 'grpc.reflection.v1alpha.ServerReflection'];

type Response = MessageInitShape<typeof ServerReflectionResponseSchema>['messageResponse'] & object;

/** Returns the methods that describe the served services to clients without their `.proto` files. */
export function reflectionMethods(files: readonly DescFile[]): readonly GrpcMethod[] {
  const reflected = new ReflectedFiles(files);
  return SERVICES.map((service) => ({
    path: `/${service}/ServerReflectionInfo`,
    isOpenToAll: true,
    serve: (call) => answerNext(call, reflected),
  }));
}

function answerNext(call: GrpcCall, reflected: ReflectedFiles): void {
  call.receive((message) => {
    if (message === undefined) {
      call.end();
      return;
    }
    try {
      const request = decodeMessage(ServerReflectionRequestSchema, message);
      const messageResponse = reflected.responseTo(request.messageRequest);
      const response = { validHost: request.host, originalRequest: request, messageResponse };
      call.write(framed(encodeMessage(ServerReflectionResponseSchema, response)));
    } catch (thrown) {
      call.end(statusOf(thrown));
      return;
    }
    if (call.isBlocked()) call.onUnblocked(() => answerNext(call, reflected));
    else answerNext(call, reflected);
  });
}

/** The `.proto` files by their names, and by the services, methods and types that they declare. */
class ReflectedFiles {
  readonly #services: readonly string[];
  readonly #byName = new Map<string, DescFile>();
  readonly #bySymbol = new Map<string, DescFile>();

  constructor(files: readonly DescFile[]) {
    this.#services = files.flatMap(({ services }) => services.map(({ typeName }) => typeName));
    for (const file of files) this.#add(file);
  }

  #add(file: DescFile): void {
    const name = `${file.name}.proto`;
    if (this.#byName.has(name)) return;
    this.#byName.set(name, file);
    for (const dependency of file.dependencies) this.#add(dependency);
    for (const { typeName, methods } of file.services) {
      this.#bySymbol.set(typeName, file);
      for (const method of methods) this.#bySymbol.set(`${typeName}.${method.name}`, file);
    }
    for (const { typeName } of [...file.messages.flatMap(withNested), ...file.enums])
      this.#bySymbol.set(typeName, file);
  }

  responseTo({ case: asked, value }: { case: string | undefined; value?: unknown }): Response {
    switch (asked) {
      case 'listServices':
        return { case: 'listServicesResponse', value: { service: this.#services.map((name) => ({ name })) } };
      case 'fileByFilename':
        return describe(this.#byName.get(String(value)), String(value));
      case 'fileContainingSymbol':
        return describe(this.#bySymbol.get(String(value)), String(value));
      case 'fileContainingExtension':
      case 'allExtensionNumbersOfType':
        return failure(STATUS.NOT_FOUND, 'there are no extensions');
      default:
        return failure(STATUS.INVALID_ARGUMENT, 'message_request must be set');
    }
  }
}

function withNested(message: DescFile['messages'][number]): readonly { readonly typeName: string }[] {
  return [message, ...message.nestedEnums, ...message.nestedMessages.flatMap(withNested)];
}

/** Returns the response with a file and the files that it imports. */
function describe(file: DescFile | undefined, asked: string): Response {
  if (file === undefined) return failure(STATUS.NOT_FOUND, `${asked.slice(0, 256)} is not known`);
  const files = [file, ...file.dependencies];
  const bytes = files.map(({ proto }) => toBinary(FileDescriptorProtoSchema, proto));
  return { case: 'fileDescriptorResponse', value: { fileDescriptorProto: bytes } };
}

function failure(errorCode: number, errorMessage: string): Response {
  return { case: 'errorResponse', value: { errorCode, errorMessage } };
}
