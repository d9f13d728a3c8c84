import type { ChatMessage, GenerationRequest } from '../generation/index.ts';
import type { RequestHeaders } from './decode-context.ts';

type AgentContext = NonNullable<GenerationRequest['agentContext']>;

/** The headers in which one kind of client says whose request this is. */
interface IdentityHeaders {
  readonly session: string;
  /** A part of the session with a conversation of its own; the session is then its parent. */
  readonly child?: string;
  readonly parent: string;
}

/** Dynamo's own headers, then those of common coding agents; the first whose session is there counts. */
const IDENTITIES: readonly IdentityHeaders[] = [
  { session: 'x-dynamo-session-id', parent: 'x-dynamo-parent-session-id' },
  {
    session: 'x-claude-code-session-id',
    child: 'x-claude-code-agent-id',
    parent: 'x-claude-code-parent-agent-id',
  },
  { session: 'thread-id', parent: 'x-codex-parent-thread-id' },
  { session: 'x-session-id', parent: 'x-parent-session-id' },
];
/** Ends the session, whoever named it. */
const FINAL_HEADER = 'x-dynamo-session-final';
/** Longer ids are not ids; they would be kept with every session. */
const ID_CHARS_MAX = 256;

/** Whose request it is. */
export interface AgentSession {
  readonly sessionId: string;
  readonly parentSessionId: string | undefined;
  /** Nothing follows in this session. */
  readonly isFinal: boolean;
}

/** The session that the request's headers name; undefined when they name none. */
export function decodeSession(headers: RequestHeaders): AgentSession | undefined {
  for (const identity of IDENTITIES) {
    const session = idIn(headers, identity.session);
    if (session === undefined) continue;
    const child = identity.child === undefined ? undefined : idIn(headers, identity.child);
    const parent = idIn(headers, identity.parent) ?? (child === undefined ? undefined : session);
    return {
      sessionId: child ?? session,
      parentSessionId: parent,
      isFinal: headers.header(FINAL_HEADER)?.trim().toLowerCase() === 'true',
    };
  }
  return undefined;
}

/** What a worker and the request records are told: the headers, which win, over what `nvext.agent_context` says. */
export function agentContextOf(
  session: AgentSession | undefined,
  given: AgentContext | null | undefined,
  lastMessage: Pick<ChatMessage, 'role'> | undefined,
): AgentContext | undefined {
  if (session === undefined) return given ?? undefined;
  return {
    ...given,
    session_id: session.sessionId,
    ...(session.parentSessionId === undefined ? {} : { parent_session_id: session.parentSessionId }),
    ...(session.isFinal ? { session_final: true } : {}),
    input_trigger: triggerOf(lastMessage),
  };
}

/** Who made the model speak. */
function triggerOf(lastMessage: Pick<ChatMessage, 'role'> | undefined): string {
  switch (lastMessage?.role) {
    case 'user':
      return 'user_message';
    case 'tool':
    case 'function':
      return 'tool_result';
    default:
      return 'other';
  }
}

function idIn(headers: RequestHeaders, name: string): string | undefined {
  const id = headers.header(name)?.trim();
  return id === undefined || id === '' || id.length > ID_CHARS_MAX ? undefined : id;
}
