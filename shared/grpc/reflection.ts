import { type DescFile, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';
import { framed } from './message-frames.ts';
import {
  decodeMessage,
  encodeMessage,
  ServerReflectionRequestSchema,
  ServerReflectionResponseSchema,
} from './messages/index.ts';
import { STATUS, statusOf } from './status.ts';
import type { GrpcCall, GrpcMethod } from './types.ts';

/** Both names that clients ask for; the messages are the same. */
const SERVICES = ['grpc.reflection.v1.ServerReflection', 'grpc.reflection.v1alpha.ServerReflection'];

type Response = MessageInitShape<typeof ServerReflectionResponseSchema>['messageResponse'] & object;

/** What is served, for clients that have no files of it. @param files that describe it */
export function reflectionMethods(files: readonly DescFile[]): readonly GrpcMethod[] {
  const reflected = new ReflectedFiles(files);
  return SERVICES.map((service) => ({
    path: `/${service}/ServerReflectionInfo`,
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

/** Files by their names, and by what stands in them. */
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

/** A file and those that it imports. */
function describe(file: DescFile | undefined, asked: string): Response {
  if (file === undefined) return failure(STATUS.NOT_FOUND, `${asked.slice(0, 256)} is not known`);
  const files = [file, ...file.dependencies];
  const bytes = files.map(({ proto }) => toBinary(FileDescriptorProtoSchema, proto));
  return { case: 'fileDescriptorResponse', value: { fileDescriptorProto: bytes } };
}

function failure(errorCode: number, errorMessage: string): Response {
  return { case: 'errorResponse', value: { errorCode, errorMessage } };
}
