"""The table of programs."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.wild import adversarial, agents, learning, structures, text, vision
from benchmarks.wild.way import Program, Way

#: Name -> what sets it up.
PROGRAMS: dict[str, Callable[[Way], Program]] = {
    make.__name__: make
    for make in (
        agents.dqn,
        agents.double_dqn,
        agents.dqn_outside,
        agents.a2c,
        agents.ppo,
        agents.ddpg,
        agents.reinforce,
        agents.evolution,
        agents.curiosity,
        adversarial.dcgan,
        adversarial.lsgan,
        adversarial.wgan_gp,
        adversarial.clipped_wgan,
        adversarial.vae,
        adversarial.vae_counts,
        adversarial.flow,
        adversarial.vq_vae,
        adversarial.denoising,
        text.ragged_lstm,
        text.bag_of_words,
        text.attention,
        text.scheduled_sampling,
        text.greedy_decoding,
        text.beam_search,
        text.truncated_bptt,
        text.word2vec,
        text.ctc,
        text.transformer,
        structures.trees,
        structures.few_trees,
        structures.shift_reduce,
        structures.gcn,
        structures.molecules,
        structures.memory_network,
        structures.pointer,
        structures.point_clouds,
        vision.resnet,
        vision.hard_negatives,
        vision.proposals,
        vision.siamese,
        vision.triplets,
        vision.style,
        vision.capsules,
        vision.mixup,
        vision.segmentation,
        learning.maml,
        learning.experts,
        learning.ode,
        learning.adaptive_ode,
        learning.early_exit,
        learning.patience,
        learning.accumulation,
        learning.trainer,
        learning.own_function,
        learning.sequential,
        learning.slopes,
        learning.multi_task,
        learning.distillation,
        learning.history,
        learning.curriculum,
    )
}
