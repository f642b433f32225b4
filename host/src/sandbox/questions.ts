/** The port to what waits for a person: the egress process holds the questions, the engine their history and their answers. */
import type { EgressAsked, EgressQuestionEnd } from '@squash/contract/egress-protocol';

export interface QuestionListener {
  /** All that are open, when somebody answers who knows; what else was open is not any more. */
  readonly onOpen: (open: readonly EgressAsked[]) => void;
  readonly onAsked: (asked: EgressAsked) => void;
  readonly onEnded: (end: EgressQuestionEnd) => void;
}

export interface Questions {
  /** From now on. */
  begin(listener: QuestionListener): void;
  /** False: nobody waits for it any more. @throws egress_unavailable */
  answer(id: string, isAllowed: boolean): Promise<boolean>;
}
