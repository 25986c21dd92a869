"""The stories on etcd, kube-apiserver and kube-scheduler."""

import pytest

from tests.stories import story
from tests.stories.cluster import StoryCluster
from tests.stories.planes import RealPlane


@pytest.fixture
def cluster(tmp_path):
    found = StoryCluster(RealPlane(), tmp_path)
    yield found
    found.close()


def test_pods_are_mutated_bound_and_kept_off_hot_nodes(cluster):
    story.tell_the_demo_story(cluster)


def test_a_restart_in_the_middle_loses_nothing_and_binds_nothing_twice(cluster):
    story.tell_of_a_restart_in_the_middle(cluster)


def test_what_a_what_if_foresees_happens(cluster):
    story.tell_of_a_what_if(cluster)


def test_reservations_hold_in_a_crowd(cluster):
    story.tell_of_reservations_in_a_crowd(cluster)


@story.needs_samples
def test_every_pod_of_a_real_application_finds_a_node(cluster):
    story.tell_of_the_online_boutique(cluster)


@story.needs_samples
def test_a_production_trace_is_placed(cluster):
    story.tell_of_a_production_cluster(cluster)
